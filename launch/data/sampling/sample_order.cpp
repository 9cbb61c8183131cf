#include "launch/data/sampling/sample_order.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace tessera {
namespace {

constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

/// SplitMix64's finalizer: every input bit affects every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A permutation of the integers of 2 × `half_bits` bits.
uint64_t feistel(uint64_t x, int half_bits, uint64_t key) {
  constexpr uint64_t kRounds = 8;  // 4 are enough for large halves; small ones need more
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = x >> half_bits;
  uint64_t right = x & mask;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    const uint64_t next = left ^ (mix(right ^ mix(key + round * kGoldenGamma)) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t permuted(uint64_t seed, int64_t epoch, int64_t n, int64_t i) {
  require(0 <= i && i < n && epoch >= 0,
          "sample order: there is no position {} among {} samples in epoch {}", i, n, epoch);
  if (n == 1) return 0;
  const uint64_t size = static_cast<uint64_t>(n);
  // At least four bits: halves of one or two bits reach too few permutations.
  const int half_bits = std::max(4, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
  const uint64_t key =
      mix(mix(seed + kGoldenGamma) ^ (static_cast<uint64_t>(epoch) + kGoldenGamma));
  uint64_t x = static_cast<uint64_t>(i);
  do {
    x = feistel(x, half_bits, key);
  } while (x >= size);
  return static_cast<int64_t>(x);
}

int64_t shuffled_place(int64_t n, int64_t i) {
  constexpr uint64_t kSeed = 0;
  return permuted(kSeed, 0, n, i);
}

int64_t sample_at(uint64_t seed, int64_t n, int64_t position) {
  require(n >= 1 && position >= 0, "sample order: there is no position {} with {} samples",
          position, n);
  return permuted(seed, position / n, n, position % n);
}

}  // namespace tessera
