#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/random.h"

namespace tessera::cuda {

/// The keys of Philox's rounds, which depend on the seed alone. As an argument of a kernel they are
/// constants and need no registers.
struct PhiloxRounds {
  static constexpr int kCount = 10;
  uint32_t key0[kCount], key1[kCount];

  __host__ __device__ explicit PhiloxRounds(uint64_t seed) {
    constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
    for (uint32_t i = 0; i < kCount; ++i) {
      key0[i] = static_cast<uint32_t>(seed) + i * kWeyl0;
      key1[i] = static_cast<uint32_t>(seed >> 32) + i * kWeyl1;
    }
  }
};

/// Words 4 × block to 4 × block + 3 of a stream: philox() of core/random.h. `rounds` are of the
/// key's seed.
__device__ inline uint4 philox_words(const RandomKey& key, const PhiloxRounds& rounds,
                                     uint64_t block) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  uint4 c = make_uint4(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                       (key.id & 0xffffffu) | static_cast<uint32_t>(key.purpose) << 24, key.step);
#pragma unroll
  for (int i = 0; i < PhiloxRounds::kCount; ++i) {
    const uint32_t high0 = __umulhi(kMultiplier0, c.x), low0 = kMultiplier0 * c.x;
    const uint32_t high1 = __umulhi(kMultiplier1, c.z), low1 = kMultiplier1 * c.z;
    c = make_uint4(high1 ^ c.y ^ rounds.key0[i], low1, high0 ^ c.w ^ rounds.key1[i], low0);
  }
  return c;
}
__device__ inline uint4 philox_words(const RandomKey& key, uint64_t block) {
  return philox_words(key, PhiloxRounds(key.seed), block);
}

/// The word of one element. Draw whole blocks where several are needed.
__device__ inline uint32_t random_word(const RandomKey& key, uint64_t element) {
  const uint4 words = philox_words(key, element / 4);
  const auto i = static_cast<uint32_t>(element % 4);
  return i < 2 ? (i == 0 ? words.x : words.y) : (i == 2 ? words.z : words.w);
}

}  // namespace tessera::cuda
