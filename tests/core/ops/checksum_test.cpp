#include "core/ops/checksum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "core/ops/elementwise.h"
#include "tests/support/expect_error.h"
#include "tests/support/shifted.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

int64_t checksum_of(const Tensor& x) {
  const TestTensor sum({1}, DType::i64);
  checksum(x, sum.tensor);
  return copy_of(sum.tensor).tensor.span<int64_t>()[0];
}

/// The formula, one element at a time.
template <typename Bits>
int64_t expected(const Tensor& x) {
  uint64_t sum = 0;
  const TestTensor copy = copy_of(x);
  const auto* bits = static_cast<const Bits*>(copy.tensor.raw());
  for (int64_t i = 0; i < x.numel(); ++i) sum += checksum_term(i, bits[i]);
  return static_cast<int64_t>(sum);
}

TEST(Checksum, MatchesFormulaForAnySizeAndAlignment) {
  for (const int64_t n : {0, 1, 31, 255, 1000, 70'001}) {
    SCOPED_TRACE(n);
    const TestTensor x32 = random_tensor({n}, DType::f32, 1),
                     x16 = random_tensor({n}, DType::bf16, 1);
    EXPECT_EQ(checksum_of(x32.tensor), expected<uint32_t>(x32.tensor));
    EXPECT_EQ(checksum_of(x16.tensor), expected<uint16_t>(x16.tensor));
    const TestTensor x8({n}, DType::u8);
    copy(Tensor(x16.tensor.raw(), {n}, DType::u8, x16.tensor.device()), x8.tensor);
    EXPECT_EQ(checksum_of(x8.tensor), expected<uint8_t>(x8.tensor));
    if (n < 31) continue;
    EXPECT_EQ(checksum_of(Shifted(x16.tensor, 1).view), expected<uint16_t>(x16.tensor));
  }
}

TEST(Checksum, EachBitCounts) {
  const TestTensor x = random_tensor({3, 50}, DType::f32, 1);
  const int64_t before = checksum_of(x.tensor);
  float& element = x.tensor.data<float>()[77];
  for (int bit = 0; bit < 32; ++bit) {
    const float kept = element;
    element = std::bit_cast<float>(std::bit_cast<uint32_t>(element) ^ 1u << bit);
    EXPECT_NE(checksum_of(x.tensor), before) << "bit " << bit;
    element = kept;
  }
  EXPECT_EQ(checksum_of(x.tensor), before);
}

TEST(Checksum, RefusesWrongArguments) {
  const TestTensor x({4}, DType::f32, kMeta), ints({4}, DType::i32, kMeta),
      out({1}, DType::i64, kMeta);
  expect_error([&] { checksum(ints.tensor, out.tensor); }, {"checksum", "x"});
  expect_error([&] { checksum(x.tensor, x.tensor); }, {"checksum", "out must have shape (1)"});
}

}  // namespace
}  // namespace tessera
