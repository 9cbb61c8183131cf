#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {
namespace {

constexpr int kCount = 4096;

/// Results of one function for arguments from −8 to 8, or from 0 to 16.
struct Results {
  std::vector<float> exp, exp2, fast_exp, tanh, log, log2, quotient;
};

__global__ void functions_kernel(float* out) {
  for (int i = static_cast<int>(threadIdx.x); i < kCount; i += static_cast<int>(blockDim.x)) {
    const float x = static_cast<float>(i - kCount / 2) / 256.0f, y = static_cast<float>(i) / 256.0f;
    out[i] = expf(x);
    out[kCount + i] = exp2f(x);
    out[2 * kCount + i] = __expf(x);
    out[3 * kCount + i] = tanhf(x);
    out[4 * kCount + i] = logf(y);
    out[5 * kCount + i] = log2f(y);
    out[6 * kCount + i] = __fdividef(x, 1.0f + y);
  }
}

Results functions(const char* math) {
  const Environment environment("TESSERA_EMULATOR_MATH", math);
  const Visible<float> out(7 * kCount);
  launch("functions", one_block(32), functions_kernel, out.get());
  const auto part = [&](int i) {
    return std::vector<float>(out.get() + i * kCount, out.get() + (i + 1) * kCount);
  };
  return {part(0), part(1), part(2), part(3), part(4), part(5), part(6)};
}

/// All differences between neighboring numbers' positions.
std::set<int> differences(const std::vector<float>& a, const std::vector<float>& b) {
  std::set<int> found;
  for (size_t i = 0; i < a.size(); ++i) {
    found.insert(std::bit_cast<int>(a[i]) - std::bit_cast<int>(b[i]));
  }
  return found;
}

TEST(InexactMath, DiffersByTwoUnitsInTheLastPlace) {
  const Results exact = functions("exact"), other = functions("inexact:1");
  const std::set<int> all = {-2, -1, 0, 1, 2};
  EXPECT_EQ(differences(other.exp, exact.exp), all);
  EXPECT_EQ(differences(other.exp2, exact.exp2), all);
  EXPECT_EQ(differences(other.tanh, exact.tanh), all);
  EXPECT_EQ(differences(other.log, exact.log), all);
  EXPECT_EQ(differences(other.log2, exact.log2), all);
  EXPECT_EQ(differences(other.quotient, exact.quotient), all);
}

TEST(InexactMath, FastExponentialDiffersByMoreForLargeArguments) {
  const Results exact = functions("exact"), other = functions("inexact:1");
  const std::set<int> found = differences(other.fast_exp, exact.fast_exp);
  EXPECT_EQ(*found.begin(), -11);  // 2 + 1.173 × 8
  EXPECT_EQ(*found.rbegin(), 11);
}

TEST(InexactMath, DependsOnArgumentsAndSeedOnly) {
  const Results first = functions("inexact:1"), again = functions("inexact:1");
  EXPECT_EQ(first.exp, again.exp);
  EXPECT_EQ(first.quotient, again.quotient);
  EXPECT_NE(first.exp, functions("inexact:2").exp);
}

TEST(InexactMath, KeepsZeroOneAndInfinity) {
  for (const char* math : {"exact", "inexact:1", "inexact:2", "inexact:3"}) {
    const Results results = functions(math);
    EXPECT_EQ(results.exp[kCount / 2], 1.0f);
    EXPECT_EQ(results.exp2[kCount / 2], 1.0f);
    EXPECT_EQ(results.fast_exp[kCount / 2], 1.0f);
    EXPECT_EQ(results.tanh[kCount / 2], 0.0f);
    EXPECT_EQ(results.log[256], 0.0f);
    EXPECT_EQ(results.log[0], -INFINITY);
  }
}

__global__ void divide_kernel(float* out) {
  out[0] = __fdividef(1e38f, 0x1.8p126f);
  out[1] = __fdividef(INFINITY, 0x1.8p126f);
  out[2] = __fdividef(1e38f, 0x1p126f);
  out[3] = __fdividef(1.0f, INFINITY);
}

TEST(Math, FastDivisionByHugeNumbersIsZeroAsDocumented) {
  const Visible<float> out(4);
  launch("divide", one_block(1), divide_kernel, out.get());
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_GT(out[2], 1.0f);
  EXPECT_EQ(out[3], 0.0f);
}

// Relies on a result that only the C library has: the quotient of equal numbers.
__global__ void equality_kernel(int* same) {
  const float x = static_cast<float>(threadIdx.x + 3);
  same[threadIdx.x] = __fdividef(x, x) == 1.0f;
}

TEST(InexactMath, RevealsComparisonForEquality) {
  const auto same = [](const char* math) {
    const Environment environment("TESSERA_EMULATOR_MATH", math);
    const Visible<int> out(64);
    launch("equality", one_block(64), equality_kernel, out.get());
    int sum = 0;
    for (int i = 0; i < 64; ++i) sum += out[i];
    return sum;
  };
  EXPECT_EQ(same("exact"), 64);
  EXPECT_LT(same("inexact:1"), 40);
}

TEST(InexactMathDeathTest, RefusesOtherValues) {
  EXPECT_DEATH(functions("approximate"),
               "TESSERA_EMULATOR_MATH is \"approximate\": choose exact or inexact:SEED");
}

}  // namespace
}  // namespace tessera::cuda
