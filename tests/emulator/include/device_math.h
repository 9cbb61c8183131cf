#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

/// CUDA's functions whose results are not correctly rounded. They return what the C library does
/// or, with TESSERA_EMULATOR_MATH=inexact:SEED, another number within CUDA's documented error.
namespace emulator {

/// The value of TESSERA_EMULATOR_MATH. Each grid reads it when it starts.
struct Inexact {
  bool active = false;
  uint32_t seed = 0;

  /// Fails for a value that is neither "exact" nor "inexact:SEED".
  static Inexact from_environment();
};
inline Inexact inexact_math;

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

/// Changes `result` by up to `most` units in the last place, as decided by the seed and by `bits`,
/// the bits of the arguments: equal arguments have equal results. Zeros, denormal and infinite
/// numbers and NaN stay.
inline float inexact(float result, uint32_t bits, uint32_t most = 2) {
  if (!inexact_math.active) return result;
  uint32_t hash = (bits + inexact_math.seed * 0x9E3779B9u) * 0x85EBCA6Bu;  // as in MurmurHash3
  hash = (hash ^ hash >> 13) * 0xC2B2AE35u;
  hash ^= hash >> 16;
  const uint32_t changed = bits_of(result) + hash % (2 * most + 1) - most;
  const auto is_normal = [](uint32_t number) {
    const uint32_t magnitude = number & 0x7fffffffu;
    return magnitude >= 0x00800000u && magnitude < 0x7f800000u;
  };
  if (!is_normal(bits_of(result)) || !is_normal(changed)) return result;
  std::memcpy(&result, &changed, sizeof(result));
  return result;
}

// An exponential of 0 is 1 on a GPU too.
inline float expf(float x) { return x == 0.0f ? 1.0f : inexact(std::exp(x), bits_of(x)); }
inline float exp2f(float x) { return x == 0.0f ? 1.0f : inexact(std::exp2(x), bits_of(x)); }
inline float logf(float x) { return inexact(std::log(x), bits_of(x)); }
inline float log2f(float x) { return inexact(std::log2(x), bits_of(x)); }
inline float tanhf(float x) { return inexact(std::tanh(x), bits_of(x)); }

/// The error of the fast exponential grows with |x|.
inline float fast_exp(float x) {
  if (x == 0.0f || !std::isfinite(x)) return std::exp(x);
  const float most = 2.0f + std::floor(1.173f * std::fmin(std::fabs(x), 1000.0f));
  return inexact(std::exp(x), bits_of(x), static_cast<uint32_t>(most));
}

/// For 2¹²⁶ < |y| < 2¹²⁸ CUDA documents 0, or NaN if x is infinite.
inline float fast_divide(float x, float y) {
  if (std::fabs(y) > 0x1p126f && std::isfinite(y)) return x * std::copysign(0.0f, y);
  return inexact(x / y, bits_of(x) * 31 + bits_of(y));
}

}  // namespace emulator

// Kernels find these before those of the C library.
namespace tessera::cuda {
using emulator::exp2f;
using emulator::expf;
using emulator::log2f;
using emulator::logf;
using emulator::tanhf;
}  // namespace tessera::cuda
