#include "core/random.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/ops/cpu/vector_math.h"

namespace tessera {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
constexpr int kRounds = 10;

// In bulk, blocks are computed side by side in registers. Each 64-bit lane holds one word of one
// block in its lower half, the operand of the 32 × 32 → 64 bit multiplication; the upper half is
// never read. Compilers do not find that instruction, and portable arithmetic takes twice the time.
#ifdef __AVX512F__
constexpr int kWidth = 8, kRegisters = 4;
#else
constexpr int kWidth = 4, kRegisters = 2;
#endif
constexpr int kBlocks = kWidth * kRegisters;  ///< computed at a time
using Lanes = uint64_t __attribute__((vector_size(8 * kWidth)));

inline Lanes multiply(Lanes a, Lanes b) {
#ifdef __AVX512F__
  // Masks all lanes: g++ 12 warns about its own header's _mm512_mul_epu32.
  return reinterpret_cast<Lanes>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#else
  return reinterpret_cast<Lanes>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#endif
}

/// Words of kBlocks consecutive blocks: word w of block r × kWidth + l is the lower half of
/// word[w][r][l].
struct Blocks {
  Lanes word[4][kRegisters];
};

uint32_t purpose_word(const RandomKey& key) {
  return (key.id & 0xffffffu) | static_cast<uint32_t>(key.purpose) << 24;
}

inline Blocks philox_blocks(const RandomKey& key, uint64_t first_block) {
  Blocks b;
  Lanes ramp{};
  for (int l = 0; l < kWidth; ++l) ramp[l] = static_cast<uint64_t>(l);
  for (int r = 0; r < kRegisters; ++r) {
    b.word[0][r] = ramp + (first_block + static_cast<uint64_t>(r * kWidth));
    b.word[1][r] = b.word[0][r] >> 32;
    b.word[2][r] = Lanes{} + uint64_t{purpose_word(key)};
    b.word[3][r] = Lanes{} + uint64_t{key.step};
  }
  const Lanes multiplier0 = Lanes{} + uint64_t{kMultiplier0};
  const Lanes multiplier1 = Lanes{} + uint64_t{kMultiplier1};
  auto key0 = static_cast<uint32_t>(key.seed), key1 = static_cast<uint32_t>(key.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 4
    for (int r = 0; r < kRegisters; ++r) {
      const Lanes product0 = multiply(b.word[0][r], multiplier0);
      const Lanes product1 = multiply(b.word[2][r], multiplier1);
      b.word[0][r] = (product1 >> 32) ^ b.word[1][r] ^ uint64_t { key0 };
      b.word[2][r] = (product0 >> 32) ^ b.word[3][r] ^ uint64_t { key1 };
      b.word[1][r] = product1;
      b.word[3][r] = product0;
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return b;
}

/// The 4 × kBlocks words in the order of elements.
inline void store_words(const Blocks& b, uint32_t* out) {
  for (int r = 0; r < kRegisters; ++r) {
    const Lanes low = (b.word[0][r] & uint64_t{0xffffffff}) | b.word[1][r] << 32;
    const Lanes high = (b.word[2][r] & uint64_t{0xffffffff}) | b.word[3][r] << 32;
    uint64_t pairs[2 * kWidth];
#pragma omp simd
    for (int l = 0; l < kWidth; ++l) {
      pairs[2 * l] = low[l];
      pairs[2 * l + 1] = high[l];
    }
    std::memcpy(out + 4 * kWidth * r, pairs, sizeof pairs);
  }
}

/// The first number of Box–Muller from the two words of each block.
inline void store_normals(const Blocks& b, float stddev, float* out) {
  uint64_t word0[kBlocks], word1[kBlocks];
  std::memcpy(word0, b.word[0], sizeof word0);
  std::memcpy(word1, b.word[1], sizeof word1);
#pragma omp simd
  for (int i = 0; i < kBlocks; ++i) {
    // In [2⁻³², 1] and [−1/2, 1/2], through signed integers, which processors convert directly.
    const auto positive = static_cast<int32_t>(static_cast<uint32_t>(word0[i]) >> 1);
    const auto turn = static_cast<int32_t>(static_cast<uint32_t>(word1[i]));
    const float uniform = std::fma(static_cast<float>(positive), 0x1p-31f, 0x1p-32f);
    const float radius = std::sqrt(-2.0f * cpu::vec::log(uniform));
    out[i] = stddev * (radius * cpu::vec::cos_turns(static_cast<float>(turn) * 0x1p-32f));
  }
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::array<uint32_t, 4> philox(const RandomKey& key, uint64_t block) {
  return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                     purpose_word(key), key.step},
                    {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

uint32_t random_bits(const RandomKey& key, uint64_t element) {
  return philox(key, element / 4)[element % 4];
}

float random_uniform(const RandomKey& key, uint64_t element) {
  return static_cast<float>(random_bits(key, element) >> 8) * 0x1p-24f;
}

void random_bits(const RandomKey& key, uint64_t first, int64_t n, uint32_t* out) {
  constexpr int64_t kWords = 4 * kBlocks;
  uint32_t words[kWords];
  while (n > 0) {
    const auto skip = static_cast<int64_t>(first % 4);
    const Blocks blocks = philox_blocks(key, first / 4);
    const int64_t count = std::min(n, kWords - skip);
    if (count == kWords) {
      store_words(blocks, out);
    } else {
      store_words(blocks, words);
      std::copy_n(words + skip, count, out);
    }
    first += static_cast<uint64_t>(count);
    out += count;
    n -= count;
  }
}

uint8_t random_byte(const RandomKey& key, uint64_t element) {
  return static_cast<uint8_t>(random_bits(key, element / 4) >> 8 * (element % 4));
}

void random_bytes(const RandomKey& key, uint64_t first, int64_t n, uint8_t* out) {
  static_assert(std::endian::native == std::endian::little);
  constexpr int64_t kWords = 4 * kBlocks;
  uint32_t words[kWords];
  while (n > 0) {
    const auto skip = static_cast<int64_t>(first % 16);
    store_words(philox_blocks(key, first / 16), words);
    const int64_t count = std::min(n, 4 * kWords - skip);
    std::memcpy(out, reinterpret_cast<const uint8_t*>(words) + skip, static_cast<size_t>(count));
    first += static_cast<uint64_t>(count);
    out += count;
    n -= count;
  }
}

uint64_t seed_for(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed ^ hash;
}

void random_normal(const RandomKey& key, float stddev, uint64_t first, int64_t n, float* out) {
  float normals[kBlocks];
  for (int64_t i = 0; i < n; i += kBlocks) {
    const Blocks blocks = philox_blocks(key, first + static_cast<uint64_t>(i));
    if (n - i >= kBlocks) {
      store_normals(blocks, stddev, out + i);
    } else {
      store_normals(blocks, stddev, normals);
      std::copy_n(normals, n - i, out + i);
    }
  }
}

}  // namespace tessera
