#include "core/ops/cuda/cudnn_layouts.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

class CudnnLayouts : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_gpu()) GTEST_SKIP() << "these are kernels";
  }
};

std::vector<int32_t> ints_of(const Tensor& tensor) {
  const auto values = tensor.span<int32_t>();
  return {values.begin(), values.end()};
}

TEST_F(CudnnLayouts, DocumentsThatAreNotThereAreEmptyAndAtTheEnd) {
  if constexpr (kHasCuda) {
    const TestTensor documents = from_ints(std::vector{0, 3, 3, 10}, {4});
    const TestTensor lengths({5}, DType::i32), qkv({6}, DType::i32), out({6}, DType::i32),
        statistics({6}, DType::i32);
    cuda::describe_ragged_documents(
        documents.tensor, 5, 2, 8,
        {lengths.tensor.data<int32_t>(), qkv.tensor.data<int32_t>(), out.tensor.data<int32_t>(),
         statistics.tensor.data<int32_t>()});
    EXPECT_EQ(ints_of(lengths.tensor), (std::vector{3, 0, 7, 0, 0}));
    EXPECT_EQ(ints_of(statistics.tensor), (std::vector{0, 6, 6, 20, 20, 20}));
    EXPECT_EQ(ints_of(out.tensor), (std::vector{0, 48, 48, 160, 160, 160}));
    EXPECT_EQ(ints_of(qkv.tensor), (std::vector{0, 144, 144, 480, 480, 480}));
  }
}

TEST_F(CudnnLayouts, StatisticsGoFromOneLayoutToAnotherAndBack) {
  if constexpr (kHasCuda) {
    constexpr int64_t kHeads = 3, kRows = 12;
    const auto by_row = cuda::statistics_in_rows(kHeads, kRows);
    const auto by_sequence = cuda::statistics_in_blocks(kHeads, kRows, 6);
    const auto by_document = cuda::statistics_in_blocks(kHeads, kRows, 4);
    const TestTensor first = random_tensor({kRows, kHeads}, DType::f32, 1);
    const TestTensor blocks({2, kHeads, 6}, DType::f32), other({3, kHeads, 4}, DType::f32),
        back({kRows, kHeads}, DType::f32);
    const auto data = [](const TestTensor& tensor) { return tensor.tensor.data<float>(); };
    cuda::copy_statistics(data(first), by_row, data(blocks), by_sequence);
    cuda::copy_statistics(data(blocks), by_sequence, data(other), by_document);
    cuda::copy_statistics(data(other), by_document, data(back), by_row);
    expect_same_bits(back.tensor, first.tensor, "there and back");
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t row = 0; row < kRows; ++row) {
        const float expected = data(first)[row * kHeads + head];
        ASSERT_EQ(data(blocks)[row / 6 * 6 * kHeads + head * 6 + row % 6], expected);
        ASSERT_EQ(data(other)[row / 4 * 4 * kHeads + head * 4 + row % 4], expected);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
