#include "tests/cuda/ptx/instructions.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <iterator>
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

void convert_to_bf16(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, round_to_bf16(as_float(warp.get(o[1], lane))));
}

/// The first source becomes the upper half.
void convert_to_bf16x2(Warp& warp, const Operand* o, int lane) {
  const uint32_t upper = round_to_bf16(as_float(warp.get(o[1], lane)));
  const uint32_t lower = round_to_bf16(as_float(warp.get(o[2], lane)));
  warp.set(o[0], lane, upper << 16 | lower);
}

void exp2_approx(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, std::bit_cast<uint32_t>(exp2_flushed(as_float(warp.get(o[1], lane)))));
}

/// D = A B + C. The ISA gives the row and column of element i of a lane's fragment; a register
/// has two elements of A or B, the first in its lower half.
void mma(Warp& warp, const Operand* o) {
  const Operand *const d = o, *const a = o + 4, *const b = o + 8, *const c = o + 10;
  double a_matrix[16][16], b_matrix[16][8], c_matrix[16][8];
  const auto bf16 = [&](const Operand* registers, int i, int lane) {
    const auto pair = static_cast<uint32_t>(warp.get(registers[i / 2], lane));
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
      c_matrix[i < 2 ? group : group + 8][in_group * 2 + (i & 1)] = as_float(warp.get(c[i], lane));
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
      warp.set(d[i], lane, std::bit_cast<uint32_t>(static_cast<float>(sum)));
    }
  }
}

/// Lanes 8m to 8m + 7 have the addresses of the rows of matrix m. Lane i receives elements 2 (i %
/// 4) and 2 (i % 4) + 1 of row i / 4 of each matrix, or of its transpose.
template <bool kTransposed>
void ldmatrix(Warp& warp, const Operand* o) {
  uint16_t matrix[4][8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    warp.load(Warp::Space::shared, o[4], lane, 16, matrix[lane / 8][lane % 8]);
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
      warp.set(o[m], lane, pair[0] | uint32_t{pair[1]} << 16);
    }
  }
}

/// Copies 16 bytes, of which `source size` are read and the others are zero.
void copy_async(Warp& warp, const Operand* o, int lane) {
  const uint64_t read = warp.get(o[3], lane);
  if (warp.get(o[2], lane) != 16 || read > 16) warp.fail("the size is not 16, or more is read");
  warp.start_copy(o[0], o[1], lane, 16, read);
}

template <typename T, int kCount, Warp::Space kSpace>
void load(Warp& warp, const Operand* o, int lane) {
  T values[kCount];
  warp.load(kSpace, o[kCount], lane, sizeof(values), values);
  for (int i = 0; i < kCount; ++i) warp.set(o[i], lane, values[i]);
}

template <typename T, int kCount, Warp::Space kSpace>
void store(Warp& warp, const Operand* o, int lane) {
  T values[kCount];
  for (int i = 0; i < kCount; ++i) values[i] = static_cast<T>(warp.get(o[1 + i], lane));
  warp.store(kSpace, o[0], lane, sizeof(values), values);
}

void load_parameter(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, warp.argument(o[1]));
}
/// Also conversions of integers, as set() truncates, and of generic to global addresses.
void move(Warp& warp, const Operand* o, int lane) { warp.set(o[0], lane, warp.get(o[1], lane)); }
void add(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, warp.get(o[1], lane) + warp.get(o[2], lane));
}
void multiply(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, warp.get(o[1], lane) * warp.get(o[2], lane));
}
void shift_left(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, warp.get(o[1], lane) << warp.get(o[2], lane));
}
void bitwise_and(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, warp.get(o[1], lane) & warp.get(o[2], lane));
}
void set_equal(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, warp.get(o[1], lane) == warp.get(o[2], lane) ? 1 : 0);
}
void select(Warp& warp, const Operand* o, int lane) {
  warp.set(o[0], lane, warp.get(o[warp.get(o[3], lane) != 0 ? 1 : 2], lane));
}
void wait_for_copies(Warp& warp, const Operand*, int lane) { warp.finish_copies(lane); }
void nothing(Warp&, const Operand*) {}

constexpr auto kGlobal = Warp::Space::global, kShared = Warp::Space::shared;

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
    {"bar.sync", "u32", nullptr, nothing},  // the lanes are in lockstep
    {"ret", "", nullptr, nothing},
};

/// As ptxas: equal sizes, and floats are no integers.
bool compatible(const Type& declared, const Type& used) {
  if (declared.bits != used.bits) return false;
  if (declared.kind == 'p' || used.kind == 'p') return declared.kind == used.kind;
  return declared.kind == 'b' || used.kind == 'b' || (declared.kind == 'f') == (used.kind == 'f');
}

}  // namespace

const Rule* find_rule(std::string_view opcode) {
  const auto* const found = std::find_if(std::begin(kRules), std::end(kRules),
                                         [&](const Rule& rule) { return rule.opcode == opcode; });
  return found == std::end(kRules) ? nullptr : found;
}

std::string operand_error(const Rule& rule, const Instruction& instruction, const Entry& entry) {
  std::string_view rest = rule.operands;
  size_t next = 0;
  for (const int size : instruction.sizes) {
    if (rest.empty()) return "has too many operands";
    const std::string_view expected = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), expected.size() + 1));
    const size_t times = expected.find('x');
    const int expected_size = times == expected.npos ? 1 : expected[times + 1] - '0';
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

}  // namespace tessera::ptx
