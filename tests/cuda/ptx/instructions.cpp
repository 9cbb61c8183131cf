#include "tests/cuda/ptx/instructions.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

namespace tessera::ptx {
namespace {

float as_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

/// "cvt.rn.bf16": the nearest number of 8 bits of significand; of two, the one whose last bit is 0.
/// A NaN becomes the canonical NaN.
uint32_t round_to_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isinf(x)) return bits >> 16;
  const auto value = [](uint32_t magnitude) {  // 2¹²⁸ in the place of infinity
    return magnitude == 0x7f80 ? 0x1p128 : double{std::bit_cast<float>(magnitude << 16)};
  };
  const uint32_t below = bits << 1 >> 17, above = below + 1;
  const double size = std::fabs(double{x});
  const double to_below = size - value(below), to_above = value(above) - size;
  const bool up = to_below == to_above ? below % 2 == 1 : to_above < to_below;
  return (bits >> 31 << 15) | (up ? above : below);
}

/// "ex2.approx.ftz.f32": subnormal operands and results are zeros.
float exp2_flushed(float x) {
  const float operand = std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x;
  const auto result = static_cast<float>(std::exp2(double{operand}));
  return result < FLT_MIN ? 0.0f : result;
}

void convert_to_bf16(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, round_to_bf16(as_float(block.get(o[1], lane))));
}

/// The first source becomes the upper half.
void convert_to_bf16x2(Block& block, const Operand* o, int lane) {
  const uint32_t upper = round_to_bf16(as_float(block.get(o[1], lane)));
  const uint32_t lower = round_to_bf16(as_float(block.get(o[2], lane)));
  block.set(o[0], lane, upper << 16 | lower);
}

void exp2_approx(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, std::bit_cast<uint32_t>(exp2_flushed(as_float(block.get(o[1], lane)))));
}

/// D = A B + C. The ISA gives the row and column of element i of a lane's fragment; a register
/// has two elements of A or B, the first in its lower half.
void mma(Block& block, const Operand* o, int first) {
  const Operand *const d = o, *const a = o + 4, *const b = o + 8, *const c = o + 10;
  double a_matrix[16][16], b_matrix[16][8], c_matrix[16][8];
  const auto bf16 = [&](const Operand* registers, int i, int lane) {
    const auto pair = static_cast<uint32_t>(block.get(registers[i / 2], first + lane));
    return double{std::bit_cast<float>((i % 2 == 0 ? pair & 0xffffu : pair >> 16) << 16)};
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
      const int column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
      a_matrix[row][column] = bf16(a, i, lane);
    }
    for (int i = 0; i < 4; ++i) {
      b_matrix[in_group * 2 + (i & 1) + (i < 2 ? 0 : 8)][group] = bf16(b, i, lane);
      c_matrix[i < 2 ? group : group + 8][in_group * 2 + (i & 1)] =
          as_float(block.get(c[i], first + lane));
    }
  }
  for (auto& row : a_matrix) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n) c_matrix[&row - a_matrix][n] += row[k] * b_matrix[k][n];
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const double sum = c_matrix[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
      block.set(d[i], first + lane, std::bit_cast<uint32_t>(static_cast<float>(sum)));
    }
  }
}

/// Lanes 8m to 8m + 7 have the addresses of the rows of matrix m. Lane i receives elements 2 (i %
/// 4) and 2 (i % 4) + 1 of row i / 4 of each matrix, or of its transpose.
template <bool kTransposed>
void ldmatrix(Block& block, const Operand* o, int first) {
  uint16_t matrix[4][8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    block.load(Block::Space::shared, o[4], first + lane, 16, matrix[lane / 8][lane % 8]);
  }
  for (auto& elements : matrix) {
    for (int row = 0; kTransposed && row < 8; ++row) {
      for (int column = 0; column < row; ++column) {
        std::swap(elements[row][column], elements[column][row]);
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int m = 0; m < 4; ++m) {
      const uint16_t* const pair = &matrix[m][lane / 4][lane % 4 * 2];
      block.set(o[m], first + lane, pair[0] | uint32_t{pair[1]} << 16);
    }
  }
}

/// Copies 16 bytes, of which `source size` are read and the others are zero.
void copy_async(Block& block, const Operand* o, int lane) {
  const uint64_t read = block.get(o[3], lane);
  if (block.get(o[2], lane) != 16 || read > 16) block.fail("the size is not 16, or more is read");
  block.start_copy(o[0], o[1], lane, 16, read);
}

template <typename T, int kCount, Block::Space kSpace>
void load(Block& block, const Operand* o, int lane) {
  T values[kCount];
  block.load(kSpace, o[kCount], lane, sizeof(values), values);
  for (int i = 0; i < kCount; ++i) block.set(o[i], lane, values[i]);
}

template <typename T, int kCount, Block::Space kSpace>
void store(Block& block, const Operand* o, int lane) {
  T values[kCount];
  for (int i = 0; i < kCount; ++i) values[i] = static_cast<T>(block.get(o[1 + i], lane));
  block.store(kSpace, o[0], lane, sizeof(values), values);
}

void load_parameter(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.argument(o[1]));
}
/// Also conversions of integers, as set() truncates, and of generic to global addresses.
void move(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane));
}
void add(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane) + block.get(o[2], lane));
}
void multiply(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane) * block.get(o[2], lane));
}
void shift_left(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane) << block.get(o[2], lane));
}
void bitwise_and(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane) & block.get(o[2], lane));
}
void set_equal(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane) == block.get(o[2], lane) ? 1 : 0);
}
void select(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[block.get(o[3], lane) != 0 ? 1 : 2], lane));
}
void wait_for_copies(Block& block, const Operand*, int lane) { block.finish_copies(lane); }
void nothing(Block&, const Operand*, int) {}
void barrier(Block& block, const Operand*, int) { block.barrier(); }  // lanes are in lockstep
void shift_right(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane) >> block.get(o[2], lane));
}
void bitwise_or(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane) | block.get(o[2], lane));
}
void set_unequal(Block& block, const Operand* o, int lane) {
  block.set(o[0], lane, block.get(o[1], lane) != block.get(o[2], lane) ? 1 : 0);
}

void fence_async_proxy(Block& block, const Operand*, int lane) { block.fence_async_proxy(lane); }
void fence_products(Block& block, const Operand*, int first) { block.fence_registers(first); }
void commit_products(Block& block, const Operand*, int first) { block.commit(first); }
void wait_for_products(Block& block, const Operand* o, int first) {
  block.wait(first, static_cast<int>(o[0].value));
}

/// The ISA's matrix descriptor of 16-bit elements in shared memory.
struct MatrixDescriptor {
  uint64_t start, leading_offset, stride_offset;  ///< bytes
  unsigned base_offset, swizzle;                  ///< 1, 2, 3: 128, 64, 32 bytes

  explicit MatrixDescriptor(uint64_t bits)
      : start((bits & 0x3fff) << 4),
        leading_offset((bits >> 16 & 0x3fff) << 4),
        stride_offset((bits >> 32 & 0x3fff) << 4),
        base_offset(bits >> 49 & 7),
        swizzle(static_cast<unsigned>(bits >> 62)) {}

  /// The address of an element: `outer` counts rows of A or columns of B, `k` the others. The
  /// canonical layout has 8 lines of as many bytes as are swizzled. A line is along k or, if
  /// transposed, along `outer`. Swizzling exchanges pieces of 16 bytes of a line, as the line's
  /// number in its group tells.
  uint64_t address(unsigned outer, unsigned k, bool transposed) const {
    const uint64_t line_bytes = uint64_t{256} >> swizzle, per_line = line_bytes / 2;
    uint64_t at = start;
    if (transposed) {
      at += outer / per_line * leading_offset + outer % per_line * 2;
      at += k / 8 * stride_offset + k % 8 * line_bytes;
    } else {
      at += outer / 8 * stride_offset + outer % 8 * line_bytes + k * 2;
    }
    const uint64_t pieces = line_bytes / 16, group = at / 128 % pieces;
    const uint64_t piece = at / 16 % pieces;
    return at - piece * 16 + (piece ^ group) * 16;
  }
};

/// One warp's 16 rows of D (64 × N) = A (64 × 16) B + D, or without D. A is in four registers, as
/// mma's, or described; then the immediates tell whether A is transposed, too.
template <int kN, bool kRegisters>
void wgmma(Block& block, const Operand* o, int first) {
  constexpr size_t kAccumulators = kN / 2, kOperands = kRegisters ? 4 : 1;
  const Operand *const d = o, *const a = d + kAccumulators, *const rest = a + kOperands;
  const MatrixDescriptor b(block.get(rest[0], first));
  const bool adds = block.get(rest[1], first) != 0;
  if (rest[2].value != 1 || rest[3].value != 1) block.fail("a scale of A or B is not 1");
  if (!kRegisters && rest[4].value != 0) block.fail("A is transposed");
  const bool transposed = rest[kRegisters ? 4 : 5].value != 0;
  if (b.swizzle == 0 || b.base_offset != 0) block.fail("B is not in a known layout");
  for (int lane = first; lane < first + kLanes; ++lane) {
    if (block.get(rest[0], lane) != block.get(rest[0], first)) block.fail("descriptors differ");
  }
  double a_matrix[16][16] = {};
  const auto number = [](uint64_t bits) {
    return double{std::bit_cast<float>(static_cast<uint32_t>(bits & 0xffffu) << 16)};
  };
  for (int lane = 0; kRegisters && lane < kLanes; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const int row = lane / 4 + (i / 2 % 2 == 0 ? 0 : 8);
      const int column = lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8);
      const uint64_t pair = block.get(a[i / 2], first + lane);
      a_matrix[row][column] = number(i % 2 == 0 ? pair : pair >> 16);
    }
  }
  const uint64_t a_bits = kRegisters ? 0 : block.get(a[0], first);
  const auto read = [&block, number, b, a_bits, transposed, first](bool of_a, unsigned outer,
                                                                   unsigned k) {
    const auto warp = static_cast<unsigned>(first / kLanes) % 4;
    const uint64_t address = of_a ? MatrixDescriptor(a_bits).address(16 * warp + outer, k, false)
                                  : b.address(outer, k, transposed);
    return number(block.product_operand(address));
  };
  for (unsigned outer = 0; outer < kN; ++outer) {  // fails if it is not ready now
    for (unsigned k = 0; k < 16; ++k) read(false, outer, k);
  }
  const std::span<const Operand> accumulators(d, kAccumulators), operands(a, kOperands);
  const auto compute = [&block, d, a_matrix, adds, read, first]() {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (unsigned i = 0; i < kAccumulators; ++i) {
        const unsigned row = static_cast<unsigned>(lane) / 4 + i / 2 % 2 * 8;
        const unsigned column = i / 4 * 8 + static_cast<unsigned>(lane) % 4 * 2 + i % 2;
        double sum = adds ? as_float(block.due(d[i], first + lane)) : 0.0f;
        for (unsigned k = 0; k < 16; ++k) {
          sum += (kRegisters ? a_matrix[row][k] : read(true, row, k)) * read(false, column, k);
        }
        block.replace(d[i], first + lane, std::bit_cast<uint32_t>(static_cast<float>(sum)));
      }
    }
  };
  block.start_product(first, accumulators, kRegisters ? operands : std::span<const Operand>{}, adds,
                      compute);
}

constexpr auto kGlobal = Block::Space::global, kShared = Block::Space::shared;

constexpr Rule kRules[] = {
    // From inline asm.
    {"cvt.rn.bf16.f32", "b16 f32", convert_to_bf16, nullptr},
    {"cvt.rn.bf16x2.f32", "b32 f32 f32", convert_to_bf16x2, nullptr},
    {"ex2.approx.ftz.f32", "f32 f32", exp2_approx, nullptr},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "f32x4 b32x4 b32x2 f32x4", nullptr,
     mma},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "b32x4 [shared]", nullptr, ldmatrix<false>},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "b32x4 [shared]", nullptr, ldmatrix<true>},
    {"cp.async.cg.shared.global", "[shared] [global] u32 u32", copy_async, nullptr},
    {"cp.async.wait_all", "", wait_for_copies, nullptr},
    {"fence.proxy.async.shared::cta", "", fence_async_proxy, nullptr},
    {"wgmma.fence.sync.aligned", "", nullptr, fence_products},
    {"wgmma.commit_group.sync.aligned", "", nullptr, commit_products},
    {"wgmma.wait_group.sync.aligned", "u32", nullptr, wait_for_products},
    {"setp.ne.b32", "pred b32 b32", set_unequal, nullptr},
    {"wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16", "f32x16 b32x4 b64 pred u32 u32 u32",
     nullptr, wgmma<32, true>},
    {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "f32x32 b32x4 b64 pred u32 u32 u32",
     nullptr, wgmma<64, true>},
    {"wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16", "f32x16 b64 b64 pred u32 u32 u32 u32",
     nullptr, wgmma<32, false>},
    {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "f32x32 b64 b64 pred u32 u32 u32 u32",
     nullptr, wgmma<64, false>},
    // From the rest of the probes.
    {"ld.param.u64", "u64 [param]", load_parameter, nullptr},
    {"ld.global.u32", "u32 [global]", load<uint32_t, 1, kGlobal>, nullptr},
    {"ld.global.f32", "f32 [global]", load<uint32_t, 1, kGlobal>, nullptr},
    {"ld.global.v4.u32", "u32x4 [global]", load<uint32_t, 4, kGlobal>, nullptr},
    {"ld.global.v4.f32", "f32x4 [global]", load<uint32_t, 4, kGlobal>, nullptr},
    {"ld.shared.v4.u32", "u32x4 [shared]", load<uint32_t, 4, kShared>, nullptr},
    {"st.global.u16", "[global] u16", store<uint16_t, 1, kGlobal>, nullptr},
    {"st.global.u32", "[global] u32", store<uint32_t, 1, kGlobal>, nullptr},
    {"st.global.f32", "[global] f32", store<uint32_t, 1, kGlobal>, nullptr},
    {"st.global.v2.u32", "[global] u32x2", store<uint32_t, 2, kGlobal>, nullptr},
    {"st.global.v4.u32", "[global] u32x4", store<uint32_t, 4, kGlobal>, nullptr},
    {"st.shared.v4.u32", "[shared] u32x4", store<uint32_t, 4, kShared>, nullptr},
    {"cvta.to.global.u64", "u64 u64", move, nullptr},
    {"cvt.u64.u32", "u64 u32", move, nullptr},
    {"cvt.u32.u64", "u32 u64", move, nullptr},
    {"mov.u32", "u32 u32", move, nullptr},
    {"add.s32", "s32 s32 s32", add, nullptr},
    {"add.s64", "s64 s64 s64", add, nullptr},
    {"mul.wide.u32", "u64 u32 u32", multiply, nullptr},
    {"shl.b32", "b32 b32 u32", shift_left, nullptr},
    {"shl.b64", "b64 b64 u32", shift_left, nullptr},
    {"and.b32", "b32 b32 b32", bitwise_and, nullptr},
    {"setp.eq.s32", "pred s32 s32", set_equal, nullptr},
    {"selp.b32", "b32 b32 b32 pred", select, nullptr},
    {"shr.u32", "u32 u32 u32", shift_right, nullptr},
    {"or.b64", "b64 b64 b64", bitwise_or, nullptr},
    {"bar.sync", "u32", nullptr, barrier},
    {"ret", "", nullptr, nothing},
};

/// As ptxas: equal sizes, and floats are no integers.
bool compatible(const Type& declared, const Type& used) {
  if (declared.bits != used.bits) return false;
  if (declared.kind == 'p' || used.kind == 'p') return declared.kind == used.kind;
  return declared.kind == 'b' || used.kind == 'b' || (declared.kind == 'f') == (used.kind == 'f');
}

}  // namespace

std::string operand_error(const Rule& rule, const Instruction& instruction, const Entry& entry) {
  std::string_view rest = rule.operands;
  size_t next = 0;
  for (const int size : instruction.sizes) {
    if (rest.empty()) return "has too many operands";
    const std::string_view expected = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), expected.size() + 1));
    const size_t times = expected.find('x');
    int expected_size = 1;
    if (times != expected.npos) {
      std::from_chars(&expected[times + 1], expected.data() + expected.size(), expected_size);
    }
    if (size != expected_size) return "expected " + std::string(expected);
    const bool is_address = expected.starts_with("[");
    const std::string_view type =
        is_address ? (expected == "[shared]" ? "u32" : "u64") : expected.substr(0, times);
    for (int i = 0; i < size; ++i, ++next) {
      const Operand& operand = instruction.operands[next];
      if ((operand.kind == Operand::Kind::address) != is_address) {
        return "expected " + std::string(expected);
      }
      if (operand.reg < 0) continue;
      const Register& reg = entry.registers[static_cast<size_t>(operand.reg)];
      if (!compatible(reg.type, parse_type(type))) {
        return reg.name + " is not of type " + std::string(type);
      }
    }
  }
  return rest.empty() ? "" : "has too few operands";
}

const Rule* find_rule(const Instruction& instruction, const Entry& entry) {
  const Rule* first = nullptr;
  for (const Rule& rule : kRules) {
    if (rule.opcode != instruction.opcode) continue;
    if (operand_error(rule, instruction, entry).empty()) return &rule;
    if (first == nullptr) first = &rule;
  }
  return first;
}

}  // namespace tessera::ptx
