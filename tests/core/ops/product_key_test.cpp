#include "core/ops/cuda/matmul/product_key.h"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

namespace tessera::cuda {
namespace {

constexpr ProductKey kForward{8192,
                              768,
                              3072,
                              MatrixLayout::rows,
                              MatrixLayout::columns,
                              DType::bf16,
                              DType::bf16,
                              Epilogue::bias,
                              false,
                              16};

TEST(ProductKey, RoundsRowsToFewNumbers) {
  std::set<int64_t> numbers;
  for (int64_t rows = 1; rows <= 65536; ++rows) {
    const int64_t rounded = rounded_rows(rows);
    ASSERT_GE(rounded, rows);
    ASSERT_LE(rounded, rows + rows / 16 + 1);
    ASSERT_EQ(rounded_rows(rounded), rounded) << rows;
    numbers.insert(rounded);
  }
  EXPECT_EQ(numbers.size(), 64u + 16u * 10u);
  for (int64_t rows = 1024; rows <= 32768; rows += 1024) EXPECT_EQ(rounded_rows(rows), rows);
}

TEST(ProductKey, IgnoresNumberOfRows) {
  ProductKey other = kForward;
  other.m = 8100;
  EXPECT_EQ(algorithm_key(other), algorithm_key(kForward));
  other.m = 4000;
  EXPECT_NE(algorithm_key(other), algorithm_key(kForward));

  // A weight gradient sums over the rows; its other extents are the layer's.
  ProductKey gradient = kForward;
  gradient.a_layout = MatrixLayout::columns;
  gradient.m = 1001, gradient.k = 8100;
  EXPECT_EQ(algorithm_key(gradient).m, 1001);
  EXPECT_EQ(algorithm_key(gradient).k, 8192);
}

TEST(ProductKey, EveryPartDistinguishesKeys) {
  std::unordered_set<ProductKey, ProductKeyHash> keys{kForward};
  const auto insert = [&](auto change) {
    ProductKey key = kForward;
    change(key);
    EXPECT_TRUE(keys.insert(key).second);
  };
  insert([](ProductKey& key) { key.m = 1; });
  insert([](ProductKey& key) { key.n = 1; });
  insert([](ProductKey& key) { key.k = 1; });
  insert([](ProductKey& key) { key.a_layout = MatrixLayout::columns; });
  insert([](ProductKey& key) { key.b_layout = MatrixLayout::rows; });
  insert([](ProductKey& key) { key.in = DType::f32; });
  insert([](ProductKey& key) { key.out = DType::f32; });
  insert([](ProductKey& key) { key.epilogue = Epilogue::none; });
  insert([](ProductKey& key) { key.epilogue = Epilogue::row_sums; });
  insert([](ProductKey& key) { key.accumulate = true; });
  insert([](ProductKey& key) { key.alignment = 8; });
  insert([](ProductKey& key) { key.tf32 = true; });
}

TEST(ProductKey, AlignmentIsAtMost16Bytes) {
  const auto at = [](uintptr_t address) {
    return static_cast<int>(alignment_of(reinterpret_cast<const void*>(address)));
  };
  EXPECT_EQ(at(0x1000), 16);
  EXPECT_EQ(at(0x1010), 16);
  EXPECT_EQ(at(0x1008), 8);
  EXPECT_EQ(at(0x1014), 4);
  EXPECT_EQ(at(0x1006), 2);
}

}  // namespace
}  // namespace tessera::cuda
