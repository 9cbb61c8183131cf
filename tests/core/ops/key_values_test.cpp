#include "core/ops/key_values.h"

#include <gtest/gtest.h>

#include "core/ops/elementwise.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr int64_t kBatch = 2, kLength = 5, kHeads = 6, kGroups = 3, kCapacity = 9, kFirst = 2;

/// The element of qkv for key (which = 0) or value (1) `d` of position `t`.
double element(const std::vector<double>& qkv, int64_t width, int64_t which, int64_t b, int64_t t,
               int64_t h, int64_t d) {
  return qkv[static_cast<size_t>(
      ((b * kLength + t) * (kHeads + 2 * kGroups) + kHeads + which * kGroups + h) * width + d)];
}

TEST(KeyValues, StoresKeysAndValuesByHead) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t width : {1, 2, 3, 8, 20, 64}) {
      const TestTensor qkv =
          random_tensor({kBatch, kLength, kHeads + 2 * kGroups, width}, dtype, 1);
      const Shape cache{kBatch, kGroups, kCapacity, width};
      const TestTensor keys(cache, dtype), values(cache, dtype);
      fill(keys.tensor, 7.0);
      fill(values.tensor, 9.0);
      store_key_values(qkv.tensor, kFirst, keys.tensor, values.tensor);
      const auto source = to_doubles(qkv.tensor);
      std::vector<double> expected_keys, expected_values;
      for (int64_t b = 0; b < kBatch; ++b) {
        for (int64_t h = 0; h < kGroups; ++h) {
          for (int64_t t = -kFirst; t < kCapacity - kFirst; ++t) {
            for (int64_t d = 0; d < width; ++d) {
              const bool stored = 0 <= t && t < kLength;
              expected_keys.push_back(stored ? element(source, width, 0, b, t, h, d) : 7.0);
              expected_values.push_back(stored ? element(source, width, 1, b, t, h, d) : 9.0);
            }
          }
        }
      }
      EXPECT_EQ(to_doubles(keys.tensor), expected_keys);
      EXPECT_EQ(to_doubles(values.tensor), expected_values);
    }
  }
}

TEST(KeyValues, RefusesWrongArguments) {
  const TestTensor qkv({2, 4, 6, 8}, DType::f32, kMeta), cache({2, 2, 6, 8}, DType::f32, kMeta),
      many({2, 4, 6, 8}, DType::f32, kMeta);
  store_key_values(qkv.tensor, 2, cache.tensor, cache.tensor);
  expect_error([&] { store_key_values(qkv.tensor, 3, cache.tensor, cache.tensor); },
               {"store_key_values", "6 positions", "7"});
  expect_error([&] { store_key_values(qkv.tensor, 0, many.tensor, cache.tensor); },
               {"store_key_values", "keys", "(B, Kl, capacity, D)"});
}

}  // namespace
}  // namespace tessera
