#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/dtype.h"

/// Elementary functions without branches or calls, which the compiler vectorizes in an `omp simd`
/// loop if it inlines them, so it must. Every multiply-add that matters is an explicit fma, so the
/// scalar remainder has the same bits as the vector loop. Polynomials are minimax fits;
/// tests/core/ops/vector_math_test.cpp measures the stated errors against double precision.
namespace tessera::cpu {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

[[gnu::always_inline]] inline float to_float(float x) { return x; }
[[gnu::always_inline]] inline float to_float(bfloat16 x) { return static_cast<float>(x); }

template <typename T>
T from_float(float x) {
  return T(x);
}

namespace vec {

/// combine(lanes[0], …, lanes[15]) as a tree; in lane order it would be one long chain.
template <typename Combine>
float fold16(const float* lanes, Combine combine) {
  float half[8], quarter[4];
  for (int i = 0; i < 8; ++i) half[i] = combine(lanes[i], lanes[i + 8]);
  for (int i = 0; i < 4; ++i) quarter[i] = combine(half[i], half[i + 4]);
  return combine(combine(quarter[0], quarter[2]), combine(quarter[1], quarter[3]));
}

/// eˣ to 1 ulp for −87.5 ≤ x ≤ 89 or NaN. Results under 2⁻¹²⁵·⁵ are zero, so none is denormal.
[[gnu::always_inline]] inline float exp_within(float x) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693147182f;
  constexpr float kLn2Low = -1.90465421e-9f;
  // Adding 1.5 × 2²³ rounds to an integer n in the low bits; the 126 more leave n + 126 there,
  // which as an exponent field is 2ⁿ⁻¹. The polynomial is therefore that of 2eʳ, and n = 128 still
  // fits.
  constexpr float kRound = 0x1.8p23f + 126.0f;
  const float shifted = std::fma(x, kLog2e, kRound);
  const float n = shifted - kRound;
  const float r = std::fma(n, -kLn2Low, std::fma(n, -kLn2High, x));
  float p = 2 * 1.38145604e-3f;
  p = std::fma(p, r, 2 * 8.3687352e-3f);
  p = std::fma(p, r, 2 * 4.1668389e-2f);
  p = std::fma(p, r, 2 * 1.66665211e-1f);
  p = std::fma(p, r, 2 * 4.9999994e-1f);
  p = std::fma(p, r, 2.0f);
  p = std::fma(p, r, 2.0f);
  return p * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
}

/// eˣ for x ≤ 89 or NaN, such as a difference from a maximum: like exp_within, and zero for smaller
/// x.
[[gnu::always_inline]] inline float exp_below(float x) {
  return exp_within(x < -87.5f ? -87.5f : x);
}

/// eˣ for any x: like exp_within, zero for smaller x, infinite above FLT_MAX.
[[gnu::always_inline]] inline float exp(float x) {
  // Both selections test x itself: if one followed from the other, the compiler would merge them
  // into branches, which vectorize badly.
  const float raised = x < -87.5f ? -87.5f : x;
  return exp_within(x > 89.0f ? 89.0f : raised);
}

/// ln x of a normal positive number, to 1 ulp.
[[gnu::always_inline]] inline float log(float x) {
  constexpr float kLn2High = 0.693359375f;  // few digits: the product with an exponent is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  const auto bits = std::bit_cast<int32_t>(x);
  const int32_t exponent = (bits - kSqrtHalf) >> 23;
  const float f = std::bit_cast<float>(bits - exponent * (1 << 23)) - 1.0f;  // x / 2ᵉ in √½ … √2
  const auto e = static_cast<float>(exponent);
  float p = -7.63449743e-2f;
  p = std::fma(p, f, 1.2761578e-1f);
  p = std::fma(p, f, -1.31601825e-1f);
  p = std::fma(p, f, 1.42017573e-1f);
  p = std::fma(p, f, -1.66233569e-1f);
  p = std::fma(p, f, 2.00012267e-1f);
  p = std::fma(p, f, -2.50008196e-1f);
  p = std::fma(p, f, 3.33333313e-1f);
  const float f2 = f * f;
  const float low = std::fma(f2, std::fma(p, f, -0.5f), e * kLn2Low);
  return std::fma(e, kLn2High, f + low);
}

/// cos(2πx) for |x| ≤ 1/2, to 2e-7 absolute.
[[gnu::always_inline]] inline float cos_turns(float x) {
  const float y = 0.25f - std::fabs(x);  // cos(2πx) = sin(2πy), |y| ≤ 1/4
  const float y2 = y * y;
  float p = 39.536705f;
  p = std::fma(p, y2, -76.5497818f);
  p = std::fma(p, y2, 81.6010056f);
  p = std::fma(p, y2, -41.3416557f);
  p = std::fma(p, y2, 6.28318501f);
  return p * y;
}

struct NormalTail {
  float probability;  ///< Φ(−x) = erfc(x / √2) / 2, to 12 ulp
  float bell;         ///< exp(−x²/2), to 2 ulp
};

/// The upper tail of the normal distribution for x ≥ 0. Abramowitz and Stegun's form (7.1.26): the
/// bell times a polynomial, here (1 − w) p(w) with w = 0.4x / (1 + 0.4x), fitted for fp32. Nothing
/// cancels, so the error is relative. Results under 2⁻¹²⁵ are zero.
[[gnu::always_inline]] inline NormalTail normal_tail(float x) {
  x = x > 13.2f ? 13.2f : x;
  const float square = x * x;
  const float rest = std::fma(x, x, -square);  // the rounding error of the square
  const float top = exp_within(-0.5f * square);
  const float bell = std::fma(top, -0.5f * rest, top);
  const float kx = 0.4f * x;
  const float w = kx / (1.0f + kx);
  float p = -0.0319045112f;
  p = std::fma(p, w, 0.112007909f);
  p = std::fma(p, w, -0.125858337f);
  p = std::fma(p, w, 0.0559881963f);
  p = std::fma(p, w, -0.0605143905f);
  p = std::fma(p, w, 0.0226826929f);
  p = std::fma(p, w, 0.116681404f);
  p = std::fma(p, w, 0.0678512007f);
  p = std::fma(p, w, -0.497357368f);
  p = std::fma(p, w, 0.5f);
  return {bell * std::fma(-w, p, p), bell};
}

/// The error function, to 2e-7 absolute.
[[gnu::always_inline]] inline float erf(float x) {
  constexpr float kSqrt2 = 1.41421356f;
  const float magnitude = std::fma(-2.0f, normal_tail(kSqrt2 * std::fabs(x)).probability, 1.0f);
  return std::copysign(magnitude, x);
}

}  // namespace vec
}  // namespace tessera::cpu
