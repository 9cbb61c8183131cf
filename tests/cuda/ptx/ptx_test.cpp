// Inline PTX against the C++ that the emulated GPU runs in its place: the same kernels, as nvcc's
// PTX in an interpreter and as C++ in the emulator.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <regex>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/ptx/block.h"
#include "tests/cuda/ptx/probes.cu"
#include "tests/cuda/ptx/wgmma_probes.cu"

namespace tessera::ptx {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return text.str();
}

/// The PTX of one of the two sources of probes.
std::string text_of(bool wgmma) { return read(wgmma ? TESSERA_WGMMA_PTX : TESSERA_PROBES_PTX); }
const Module& probes(bool wgmma = false) {
  static const Module plain = parse_module(text_of(false)), products = parse_module(text_of(true));
  return wgmma ? products : plain;
}
bool is_wgmma(std::string_view probe) { return probe.starts_with("wgmma"); }

template <typename Out>
struct Results {
  std::vector<Out> ptx, cpp;
};

/// Runs a probe of `module` and its C++, in blocks of one warp or, of a product of a warpgroup, of
/// four. Its last argument is `out`, for output.
template <typename Kernel, typename Out, typename... In>
Results<Out> run_probe(const Module& module, const char* name, Kernel* kernel, size_t blocks,
                       const std::vector<Out>& out, std::vector<In>... in) {
  const size_t shared_bytes = is_wgmma(name) ? sizeof(cuda::ProbeTiles) : 512;
  const int threads = is_wgmma(name) ? cuda::kProbeThreads : kLanes;
  const auto count = static_cast<unsigned>(blocks);
  Results<Out> results{out, out};
  std::vector<std::span<std::byte>> arguments{std::as_writable_bytes(std::span(in))...};
  arguments.push_back(std::as_writable_bytes(std::span(results.ptx)));
  Block(module.entries.at(name), arguments, shared_bytes, threads).run(count);
  emulator::run_grid({name, {count}, {static_cast<unsigned>(threads)}, shared_bytes},
                     [&] { kernel(in.data()..., results.cpp.data()); });
  return results;
}

/// Runs a probe in both forms.
template <typename Kernel, typename... Values>
auto run_probe(const char* name, Kernel* kernel, size_t blocks, const Values&... values) {
  return run_probe(probes(is_wgmma(name)), name, kernel, blocks, values...);
}

/// All upper halves, each with lower halves at and beside zero, a tie and the end.
std::vector<float> many_floats() {
  std::vector<float> all;
  for (uint32_t upper = 0; upper < 1u << 16; ++upper) {
    for (const uint32_t lower :
         {0x0000u, 0x0001u, 0x4d2fu, 0x7fffu, 0x8000u, 0x8001u, 0xb31cu, 0xffffu}) {
      all.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return all;
}

bool same(float ptx, float cpp) { return ptx == cpp || (std::isnan(ptx) && std::isnan(cpp)); }
/// The payload of a NaN may differ.
bool same_bf16(uint16_t ptx, uint16_t cpp) {
  const auto is_nan = [](uint16_t bits) { return (bits & 0x7fff) > 0x7f80; };
  return ptx == cpp || (is_nan(ptx) && is_nan(cpp));
}

template <typename T>
std::vector<T> random_integers(size_t count, std::mt19937& random, int most) {
  std::uniform_int_distribution<int> any(-most, most);
  std::vector<T> all(count);
  for (T& x : all) x = static_cast<T>(any(random));
  return all;
}

TEST(Ptx, FromFloatMatches) {
  const auto x = many_floats();
  const auto out = run_probe("from_float_probe", cuda::from_float_probe, x.size() / kLanes,
                             std::vector<bfloat16>(x.size()), x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_PRED2(same_bf16, out.ptx[i].bits, out.cpp[i].bits) << "of " << x[i];
  }
}

TEST(Ptx, RoundToMatches) {
  const auto x = many_floats();
  const auto out = run_probe("round_to_probe", cuda::round_to_probe, x.size() / (4 * kLanes),
                             std::vector<bfloat16>(x.size()), x);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_PRED2(same_bf16, out.ptx[i].bits, out.cpp[i].bits) << "of " << x[i];
  }
}

TEST(Ptx, PackBf16Matches) {
  const auto low = many_floats();
  std::vector<float> high = low;
  std::shuffle(high.begin(), high.end(), std::mt19937(1));
  const auto out = run_probe("pack_bf16_probe", cuda::pack_bf16_probe, low.size() / kLanes,
                             std::vector<uint32_t>(low.size()), low, high);
  for (size_t i = 0; i < low.size(); ++i) {
    for (const int shift : {0, 16}) {
      const auto ptx = static_cast<uint16_t>(out.ptx[i] >> shift);
      const auto cpp = static_cast<uint16_t>(out.cpp[i] >> shift);
      ASSERT_PRED2(same_bf16, ptx, cpp) << "of " << low[i] << " and " << high[i];
    }
  }
}

TEST(Ptx, FastExp2Matches) {
  const auto x = many_floats();
  const auto out = run_probe("fast_exp2_probe", cuda::fast_exp2_probe, x.size() / kLanes,
                             std::vector<float>(x.size()), x);
  for (size_t i = 0; i < x.size(); ++i) {
    const float ptx = out.ptx[i], cpp = out.cpp[i];
    const bool flushed = ptx == 0 && 0 <= cpp && cpp < FLT_MIN;  // where the C++ is denormal
    // Both are rounded once or twice.
    ASSERT_TRUE(same(ptx, cpp) || flushed || std::fabs(ptx - cpp) <= 0x1p-22f * cpp)
        << ptx << " and " << cpp << " of " << x[i];
  }
}

TEST(Ptx, MmaMatches) {
  std::mt19937 random(2);
  for (int repetition = 0; repetition < 100; ++repetition) {
    // Integers, whose sums are exact in any order.
    const auto pairs = [&](size_t count) {
      const auto numbers = random_integers<float>(2 * count, random, 255);
      std::vector<uint32_t> packed(count);
      for (size_t i = 0; i < count; ++i) {
        packed[i] = std::bit_cast<uint32_t>(numbers[2 * i]) >> 16 |
                    std::bit_cast<uint32_t>(numbers[2 * i + 1]);
      }
      return packed;
    };
    const auto a = pairs(128), b = pairs(64);
    const auto c = random_integers<float>(128, random, 9999);
    const auto out = run_probe("mma_probe", cuda::mma_probe, 1, c, a, b);
    EXPECT_EQ(out.ptx, out.cpp);
    EXPECT_NE(out.ptx, c);
  }
}

std::vector<uint4> random_rows(std::mt19937& random) {
  std::vector<uint4> rows(kLanes);
  for (uint4& row : rows) {
    row = {static_cast<unsigned>(random()), static_cast<unsigned>(random()),
           static_cast<unsigned>(random()), static_cast<unsigned>(random())};
  }
  return rows;
}

TEST(Ptx, LoadMatricesMatches) {
  std::mt19937 random(3);
  std::vector<int> row_of_lane(kLanes);
  std::iota(row_of_lane.begin(), row_of_lane.end(), 0);
  for (int repetition = 0; repetition < 20; ++repetition) {
    const auto rows = random_rows(random);
    const std::vector<uint32_t> before(4 * kLanes);
    const auto plain =
        run_probe("load_matrices_probe", cuda::load_matrices_probe, 1, before, rows, row_of_lane);
    EXPECT_EQ(plain.ptx, plain.cpp);
    const auto transposed =
        run_probe("load_transposed_matrices_probe", cuda::load_transposed_matrices_probe, 1, before,
                  rows, row_of_lane);
    EXPECT_EQ(transposed.ptx, transposed.cpp);
    EXPECT_NE(transposed.ptx, plain.ptx);
    std::shuffle(row_of_lane.begin(), row_of_lane.end(), random);
  }
}

TEST(Ptx, AsyncCopiesMatch) {
  std::mt19937 random(4);
  for (int repetition = 0; repetition < 20; ++repetition) {
    const auto rows = random_rows(random);
    const auto valid = random_integers<int>(kLanes, random, 1);
    const auto out = run_probe("async_copies_probe", cuda::async_copies_probe, 1,
                               std::vector<uint4>(kLanes), rows, valid);
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint4 &ptx = out.ptx[static_cast<size_t>(lane)],
                  &cpp = out.cpp[static_cast<size_t>(lane)];
      EXPECT_EQ(std::memcmp(&ptx, &cpp, sizeof(uint4)), 0) << "lane " << lane;
    }
  }
}

/// Tiles and registers of bf16 pairs of integers, and accumulators.
struct ProductValues {
  std::vector<uint4> tiles;
  std::vector<uint32_t> a;
  std::vector<float> c;

  explicit ProductValues(uint32_t seed) {
    std::mt19937 random(seed);
    const auto pair = [&] {
      const auto two = random_integers<float>(2, random, 15);
      return std::bit_cast<uint32_t>(two[0]) >> 16 | std::bit_cast<uint32_t>(two[1]);
    };
    for (int i = 0; i < 1024; ++i) tiles.push_back({pair(), pair(), pair(), pair()});
    for (int i = 0; i < 4 * cuda::kProbeThreads; ++i) a.push_back(pair());
    c = random_integers<float>(64 * cuda::kProbeThreads, random, 9999);
  }
};

TEST(Ptx, ProductsOfWarpgroupMatch) {
  const ProductValues values(8);
  const auto expect_same = [&](const auto& out) {
    EXPECT_EQ(out.ptx, out.cpp);
    EXPECT_NE(out.ptx, values.c);
  };
  const auto registers = [&](const char* name, auto* kernel) {
    expect_same(run_probe(name, kernel, 1, values.c, values.tiles, values.a));
  };
  registers("wgmma_registers_probe", cuda::wgmma_registers_probe);
  registers("wgmma_registers_transposed_probe", cuda::wgmma_registers_transposed_probe);
  registers("wgmma_registers_32_probe", cuda::wgmma_registers_32_probe);
  registers("wgmma_registers_32_transposed_probe", cuda::wgmma_registers_32_transposed_probe);
  expect_same(run_probe("wgmma_tiles_probe", cuda::wgmma_tiles_probe, 1, values.c, values.tiles));
  expect_same(
      run_probe("wgmma_tiles_32_probe", cuda::wgmma_tiles_32_probe, 1, values.c, values.tiles));
}

// --- planted bugs

/// Whether the results of a probe differ, or the interpreter refuses it.
template <typename Kernel, typename... Values>
bool fails(const Module& module, const char* name, Kernel* kernel, const Values&... values) {
  try {
    const auto results = run_probe(module, name, kernel, 1, values...);
    return std::memcmp(results.ptx.data(), results.cpp.data(),
                       results.ptx.size() * sizeof(results.ptx[0])) != 0;
  } catch (const std::runtime_error&) {
    return true;
  }
}

/// Expects that a probe passes, and that it fails after each of the edits of its PTX, which are
/// pairs of a regular expression and a replacement.
template <typename Kernel, typename... Values>
void expect_found(const std::vector<std::pair<std::string, std::string>>& edits, const char* name,
                  Kernel* kernel, const Values&... values) {
  EXPECT_FALSE(fails(probes(is_wgmma(name)), name, kernel, values...)) << name;
  const std::string text = text_of(is_wgmma(name));
  for (const auto& [pattern, replacement] : edits) {
    const std::string edited = std::regex_replace(text, std::regex(pattern), replacement);
    EXPECT_NE(edited, text) << pattern << " is nowhere";
    EXPECT_TRUE(fails(parse_module(edited), name, kernel, values...))
        << name << " with " << pattern << " → " << replacement;
  }
}

TEST(PtxFindsBugs, InConversions) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> any(-9.0f, 9.0f);
  std::vector<float> low(4 * kLanes), high(kLanes);
  for (float& x : low) x = any(random);
  for (float& x : high) x = any(random);
  const std::vector<float> one(low.begin(), low.begin() + kLanes);
  expect_found({{"cvt.rn.bf16.f32", "cvt.rz.bf16.f32"},
                {"cvt.rn.bf16.f32 (%rs[0-9]+), %f[0-9]+", "cvt.rn.bf16.f32 $1, %r1"}},
               "from_float_probe", cuda::from_float_probe, std::vector<bfloat16>(kLanes), one);
  const std::string swapped = "(cvt.rn.bf16x2.f32 %r[0-9]+), (%f[0-9]+), (%f[0-9]+)";
  expect_found({{swapped, "$1, $3, $2"}, {swapped, "$1, $2, $2"}}, "pack_bf16_probe",
               cuda::pack_bf16_probe, std::vector<uint32_t>(kLanes), one, high);
  expect_found({{swapped, "$1, $3, $2"}}, "round_to_probe", cuda::round_to_probe,
               std::vector<bfloat16>(4 * kLanes), low);
}

TEST(PtxFindsBugs, InFragments) {
  std::mt19937 random(6);
  std::vector<uint32_t> a(4 * kLanes), b(2 * kLanes);
  for (auto* fragment : {&a, &b}) {  // pairs of small integers
    for (uint32_t& pair : *fragment) pair = 0x40004080u + (random() % 64 << 16) + random() % 64;
  }
  const std::string f4 = R"(\{%f\d+, %f\d+, %f\d+, %f\d+\})";
  const std::string mma = "(mma.sync[^{]*" + f4 + R"(, \{)(%r\d+), (%r\d+), (%r\d+), (%r\d+))";
  expect_found({{mma, "$1$3, $2, $4, $5"},
                {mma, "$1$2, $4, $3, $5"},
                {R"((mma.sync.*\}, \{)(%r\d+), (%r\d+)\})", "$1$3, $2}"},
                {R"((mma.sync.*\{)(%f\d+), (%f\d+), (%f\d+), (%f\d+)\};)", "$1$2, $4, $3, $5};"}},
               "mma_probe", cuda::mma_probe, random_integers<float>(4 * kLanes, random, 99), a, b);
  std::vector<int> row_of_lane(kLanes);
  std::iota(row_of_lane.begin(), row_of_lane.end(), 0);
  const std::vector<uint32_t> before(4 * kLanes);
  const std::vector<uint4> rows = random_rows(random);
  expect_found(
      {{"x4.shared", "x4.trans.shared"}, {R"((ldmatrix[^{]*\{)(%r\d+), (%r\d+))", "$1$3, $2"}},
      "load_matrices_probe", cuda::load_matrices_probe, before, rows, row_of_lane);
  expect_found({{"x4.trans.shared", "x4.shared"}}, "load_transposed_matrices_probe",
               cuda::load_transposed_matrices_probe, before, rows, row_of_lane);
}

TEST(PtxFindsBugs, InAsyncCopies) {
  std::mt19937 random(7);
  std::vector<int> valid(kLanes, 1);
  valid[3] = 0;
  const std::string copy = R"((cp.async[^;]*), 16, (%r\d+);)";
  expect_found({{copy, "$1, 8, $2;"}, {copy, "$1, 16, 16;"}, {"cp.async.wait_all;", ""}},
               "async_copies_probe", cuda::async_copies_probe, std::vector<uint4>(kLanes),
               random_rows(random), valid);
}

TEST(PtxFindsBugs, InProductsOfWarpgroup) {
  const ProductValues values(9);
  const std::string f4 = R"((wgmma.mma_async[^{]*\{)(%f\d+), (%f\d+), (%f\d+), (%f\d+))";
  const std::string a4 = R"((wgmma.mma_async[^}]*\}, \{)(%r\d+), (%r\d+))";
  const std::string flags = R"((wgmma.mma_async.*), adds, 1, 1, 0;)";
  expect_found({{f4, "$1$4, $3, $2, $5"},
                {a4, "$1$3, $2"},
                {flags, "$1, adds, 1, 1, 1;"},
                {flags, "$1, adds, 1, -1, 0;"},
                {"wgmma.fence.sync.aligned;", ""},
                {"wgmma.commit_group.sync.aligned;", ""},
                {"wait_group.sync.aligned 1", "wait_group.sync.aligned 2"},
                {"wait_group.sync.aligned 0", "wait_group.sync.aligned 1"},
                {"fence.proxy.async.shared::cta;", ""},
                // Another swizzle, other distances of groups of rows, another start.
                {"4611686293305360384", "-9223371761976803328"},
                {"4611686293305360384", "4611686327665098752"},
                {"4611686293305360384", "4611686155866406912"},
                {R"((add.s64\s+%rd\d+, %rd\d+), 2;)", "$1, 4;"}},
               "wgmma_registers_probe", cuda::wgmma_registers_probe, values.c, values.tiles,
               values.a);
  expect_found({{R"((wgmma.mma_async.*), adds, 1, 1, 0, 0;)", "$1, adds, 1, 1, 0, 1;"},
                {R"((wgmma.mma_async.*\}), (%rd\d+), (%rd\d+))", "$1, $3, $2"}},
               "wgmma_tiles_probe", cuda::wgmma_tiles_probe, values.c, values.tiles);
}

struct Statement {
  std::string file;  ///< from the repository's root
  int first = 0, last = 0;
};

/// The asm statements of a source.
std::vector<Statement> find_asm(const std::string& file, const std::string& text) {
  std::vector<Statement> found;
  int line = 1, depth = 0;
  bool quoted = false, inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto is_letter = [&](size_t at) {
      return std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_';
    };
    if (c == '\n') {
      ++line;
    } else if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"' && text[i - 1] != '\'') {
      quoted = true;
    } else if (text.compare(i, 2, "//") == 0) {
      i = text.find('\n', i) - 1;
    } else if (inside) {
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      found.back().last = line;
      inside = c != ';' || depth > 0;
    } else if (text.compare(i, 3, "asm") == 0 && !is_letter(i - 1) && !is_letter(i + 3)) {
      if (text.compare(i, 15, "asm volatile(\"\"") == 0) continue;  // has no instruction
      found.push_back({file, line, line});
      inside = true;
    }
  }
  return found;
}

TEST(Ptx, EveryAsmStatementHasAProbe) {
  const std::filesystem::path root = TESSERA_SOURCE_DIR;
  int statements = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "core")) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cu" && extension != ".cpp") continue;
    const std::string file = entry.path().lexically_relative(root);
    if (file.starts_with("core/ops/cpu/")) continue;  // instructions of the CPU
    for (const Statement& statement : find_asm(file, read(entry.path()))) {
      bool probed = false;
      for (const Module* module : {&probes(false), &probes(true)}) {
        for (const auto& [name, probe] : module->entries) {
          for (const Instruction& instruction : probe.instructions) {
            if (!instruction.inline_asm) continue;
            const auto source = std::filesystem::path(module->files.at(instruction.file));
            probed = probed ||
                     (source.lexically_normal() == entry.path() &&
                      statement.first <= instruction.line && instruction.line <= statement.last);
          }
        }
      }
      EXPECT_TRUE(probed) << statement.file << ":" << statement.first
                          << ": no kernel of tests/cuda/ptx/probes.cu runs this asm statement";
      ++statements;
    }
  }
  EXPECT_GT(statements, 0);
}

}  // namespace
}  // namespace tessera::ptx
