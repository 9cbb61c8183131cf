#include "core/ops/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tessera {
namespace {

using cpu::vec::NormalTail;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// |actual − expected| in units of the last place of `expected` as a float.
double ulps(float actual, double expected) {
  const float magnitude = std::fabs(static_cast<float>(expected));
  const double ulp = std::nextafter(magnitude, kInfinity) - magnitude;
  return std::abs(actual - expected) / ulp;
}

TEST(VectorMath, ExpIsWithinOneUlp) {
  double worst = 0.0;
  for (float x = -86.9f; x < 88.7228f; x += 1.7e-4f) {
    worst = std::max(worst, ulps(cpu::vec::exp(x), std::exp(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 1.0);
}

TEST(VectorMath, ExpAtItsLimits) {
  EXPECT_EQ(cpu::vec::exp(0.0f), 1.0f);
  EXPECT_EQ(cpu::vec::exp(-0.0f), 1.0f);
  for (const float x : {-87.4f, -88.0f, -104.0f, -1e30f, -kInfinity}) {
    EXPECT_EQ(cpu::vec::exp(x), 0.0f) << x;
  }
  for (const float x : {88.73f, 89.5f, 1e30f, kInfinity}) {
    EXPECT_EQ(cpu::vec::exp(x), kInfinity) << x;
  }
  EXPECT_LE(ulps(cpu::vec::exp(88.7228f), std::exp(static_cast<double>(88.7228f))), 1.0);
  EXPECT_TRUE(std::isnan(cpu::vec::exp(std::nanf(""))));
}

TEST(VectorMath, ExpBelowHasTheBitsOfExp) {
  for (const float x : {-kInfinity, -1e30f, -87.6f, -87.5f, -3.25f, 0.0f, 1e-7f, 88.5f}) {
    EXPECT_EQ(cpu::vec::exp_below(x), cpu::vec::exp(x)) << x;
  }
  EXPECT_TRUE(std::isnan(cpu::vec::exp_below(std::nanf(""))));
}

TEST(VectorMath, LogIsWithinOneUlp) {
  double worst = 0.0;
  for (uint32_t bits = 0x00800000u; bits < 0x7f800000u; bits += 2003) {
    const auto x = std::bit_cast<float>(bits);
    worst = std::max(worst, ulps(cpu::vec::log(x), std::log(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_EQ(cpu::vec::log(1.0f), 0.0f);
}

TEST(VectorMath, CosineIsAccurate) {
  double worst = 0.0;
  for (float x = -0.5f; x <= 0.5f; x += 1.3e-6f) {
    const double expected = std::cos(2.0 * std::numbers::pi * static_cast<double>(x));
    worst = std::max(worst, std::abs(cpu::vec::cos_turns(x) - expected));
  }
  EXPECT_LE(worst, 2e-7);
}

TEST(VectorMath, NormalTailHasSmallRelativeError) {
  double worst = 0.0, worst_bell = 0.0;
  for (float x = 0.0f; x < 13.0f; x += 1.1e-5f) {
    const NormalTail tail = cpu::vec::normal_tail(x);
    const auto exact = static_cast<double>(x);
    worst = std::max(worst, ulps(tail.probability, 0.5 * std::erfc(exact / std::numbers::sqrt2)));
    worst_bell = std::max(worst_bell, ulps(tail.bell, std::exp(-0.5 * exact * exact)));
  }
  EXPECT_LE(worst, 12.0);
  EXPECT_LE(worst_bell, 2.0);
  EXPECT_EQ(cpu::vec::normal_tail(0.0f).probability, 0.5f);
  for (const float x : {16.0f, 1e20f, kInfinity}) {
    EXPECT_EQ(cpu::vec::normal_tail(x).probability, 0.0f) << x;
    EXPECT_EQ(cpu::vec::normal_tail(x).bell, 0.0f) << x;
  }
}

TEST(VectorMath, ErfHasSmallAbsoluteError) {
  double worst = 0.0;
  for (float x = -6.0f; x < 6.0f; x += 1.1e-5f) {
    worst = std::max(worst, std::abs(cpu::vec::erf(x) - std::erf(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 1.5e-7);
  EXPECT_EQ(cpu::vec::erf(0.0f), 0.0f);
  EXPECT_EQ(cpu::vec::erf(kInfinity), 1.0f);
  EXPECT_EQ(cpu::vec::erf(-kInfinity), -1.0f);
}

}  // namespace
}  // namespace tessera
