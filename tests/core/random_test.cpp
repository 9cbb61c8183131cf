#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace tessera {
namespace {

const RandomKey kKey{0x0123456789abcdefu, RandomPurpose::mlp_dropout, 77, 12};

using Counter = std::array<uint32_t, 4>;

// The known answers from Random123's kat_vectors.
TEST(Philox, KnownAnswers) {
  constexpr uint32_t kOnes = 0xffffffffu;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Counter{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(
      philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      (Counter{0xd16cfe09u, 0x94fdcceb, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, KeyFillsCounterAndKey) {
  const uint64_t block = 0x0000000500000003u;
  EXPECT_EQ(philox(kKey, block),
            philox4x32({3, 5, 77u | 5u << 24, 12}, {0x89abcdefu, 0x01234567u}));
}

TEST(RandomBits, BulkEqualsSingleWords) {
  // Includes the carry into the upper half of the block.
  for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4093},
                               (uint64_t{1} << 34) - 37}) {
    for (const int64_t n : {0, 1, 3, 4, 31, 127, 128, 129, 300}) {
      std::vector<uint32_t> bits(static_cast<size_t>(n) + 1, 0xdeadbeefu);
      random_bits(kKey, first, n, bits.data());
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        ASSERT_EQ(bits[i], random_bits(kKey, first + i)) << first << " + " << i << ", n " << n;
      }
      EXPECT_EQ(bits.back(), 0xdeadbeefu) << "a word past the end was written";
    }
  }
}

TEST(RandomBytes, AreTheBytesOfWords) {
  for (uint64_t element = 0; element < 40; ++element) {
    const uint32_t word = random_bits(kKey, element / 4);
    EXPECT_EQ(random_byte(kKey, element), (word >> 8 * (element % 4)) & 0xffu) << element;
  }
}

TEST(RandomBytes, BulkEqualsSingleBytes) {
  // Includes the carry into the upper half of the block.
  for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{5}, uint64_t{15}, uint64_t{4093},
                               (uint64_t{1} << 36) - 37}) {
    for (const int64_t n : {0, 1, 3, 16, 64, 511, 512, 513, 1100}) {
      std::vector<uint8_t> bytes(static_cast<size_t>(n) + 1, 0xa5);
      random_bytes(kKey, first, n, bytes.data());
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        ASSERT_EQ(bytes[i], random_byte(kKey, first + i)) << first << " + " << i << ", n " << n;
      }
      EXPECT_EQ(bytes.back(), 0xa5) << "a byte past the end was written";
    }
  }
}

TEST(RandomBits, DependOnEveryPartOfKey) {
  std::set<uint32_t> words;
  for (const RandomKey& key : {kKey, RandomKey{1, kKey.purpose, kKey.id, kKey.step},
                               RandomKey{kKey.seed, RandomPurpose::sampling, kKey.id, kKey.step},
                               RandomKey{kKey.seed, kKey.purpose, 78, kKey.step},
                               RandomKey{kKey.seed, kKey.purpose, kKey.id, 13}}) {
    words.insert(random_bits(key, 5));
  }
  EXPECT_EQ(words.size(), 5u);
}

TEST(RandomUniform, IsUniformInUnitInterval) {
  constexpr int kCount = 100000;
  double sum = 0.0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const float u = random_uniform(kKey, i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += static_cast<double>(u);
  }
  // The standard deviation of the mean is 1 / sqrt(12 n).
  EXPECT_NEAR(sum / kCount, 0.5, 4.0 / std::sqrt(12.0 * kCount));
}

TEST(RandomNormal, BitsDoNotDependOnRanges) {
  constexpr int64_t kCount = 1000;
  std::vector<float> whole(kCount), cut(kCount);
  random_normal(kKey, 0.02f, 40, kCount, whole.data());
  for (const int64_t step : {1, 3, 17, 32, 33, 65, 999}) {
    for (int64_t i = 0; i < kCount; i += step) {
      random_normal(kKey, 0.02f, 40 + static_cast<uint64_t>(i), std::min(step, kCount - i),
                    cut.data() + i);
    }
    EXPECT_EQ(whole, cut) << step;
  }
}

TEST(RandomNormal, IsBoxMullerOfEachBlock) {
  std::vector<float> normals(200);
  random_normal(kKey, 2.0f, 1000, 200, normals.data());
  for (size_t i = 0; i < normals.size(); ++i) {
    const auto words = philox(kKey, 1000 + i);
    const double uniform = (words[0] + 0.5) * 0x1p-32;
    const double angle = 2.0 * M_PI * words[1] * 0x1p-32;
    // Rounding a uniform close to 1 to fp32 moves the radius by up to sqrt(2⁻²⁴).
    EXPECT_NEAR(normals[i], 2.0 * std::sqrt(-2.0 * std::log(uniform)) * std::cos(angle), 1e-3);
  }
}

TEST(RandomNormal, HasMomentsOfNormalDistribution) {
  constexpr int64_t kCount = 200000;
  std::vector<float> x(kCount);
  random_normal(kKey, 1.0f, 0, kCount, x.data());
  double m1 = 0.0, m2 = 0.0, m4 = 0.0;
  int64_t beyond_two = 0;
  for (const float value : x) {
    ASSERT_TRUE(std::isfinite(value));
    const double square = static_cast<double>(value) * static_cast<double>(value);
    m1 += static_cast<double>(value) / kCount;
    m2 += square / kCount;
    m4 += square * square / kCount;
    beyond_two += std::fabs(value) > 2.0f;
  }
  // Four standard deviations of each estimate: var(x) = 1, var(x²) = 2, var(x⁴) = 96.
  EXPECT_NEAR(m1, 0.0, 4.0 * std::sqrt(1.0 / kCount));
  EXPECT_NEAR(m2, 1.0, 4.0 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(m4, 3.0, 4.0 * std::sqrt(96.0 / kCount));
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, 0.0455,
              4.0 * std::sqrt(0.0455 * 0.9545 / kCount));
}

TEST(SeedFor, ParametersOfLargeModelHaveDistinctSeeds) {
  std::set<uint64_t> seeds;
  size_t names = 0;
  for (int layer = 0; layer < 1000; ++layer) {
    for (const char* part : {"attention.qkv.weight", "attention.output.weight", "mlp.up.weight",
                             "mlp.down.weight", "attention_norm.weight", "mlp_norm.weight"}) {
      seeds.insert(seed_for(7, "blocks." + std::to_string(layer) + "." + part));
      ++names;
    }
  }
  EXPECT_EQ(seeds.size(), names);
}

}  // namespace
}  // namespace tessera
