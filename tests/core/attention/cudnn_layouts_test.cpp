#include "core/ops/cuda/attention/cudnn_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

class CudnnLayouts : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_gpu()) GTEST_SKIP() << "these kernels need a GPU";
  }
};

std::vector<int32_t> ints_of(const Tensor& tensor) {
  const auto values = tensor.span<int32_t>();
  return {values.begin(), values.end()};
}

/// Tables for a call with `count` documents.
struct Tables {
  explicit Tables(int64_t count)
      : queries({count}, DType::i32),
        keys({count}, DType::i32),
        qkv({count + 1}, DType::i32),
        out({count + 1}, DType::i32),
        statistics({count + 1}, DType::i32),
        tables{count,
               queries.tensor.data<int32_t>(),
               keys.tensor.data<int32_t>(),
               qkv.tensor.data<int32_t>(),
               out.tensor.data<int32_t>(),
               statistics.tensor.data<int32_t>()} {}

  TestTensor queries, keys, qkv, out, statistics;
  cuda::DocumentTables tables;
};

TEST_F(CudnnLayouts, MissingDocumentsAreEmptyAndLast) {
  if constexpr (kHasCuda) {
    const TestTensor documents = from_ints(std::vector{0, 3, 3, 10}, {4});
    AttentionMask mask;
    mask.documents = documents.tensor;
    const Tables to(5);
    cuda::describe_documents(mask, {3, 10, 10, true}, 1, {48, 16, 2}, to.tables);
    EXPECT_EQ(ints_of(to.queries.tensor), (std::vector{3, 0, 7, 0, 0}));
    EXPECT_EQ(ints_of(to.keys.tensor), (std::vector{3, 0, 7, 0, 0}));
    EXPECT_EQ(ints_of(to.statistics.tensor), (std::vector{0, 6, 6, 20, 20, 20}));
    EXPECT_EQ(ints_of(to.out.tensor), (std::vector{0, 48, 48, 160, 160, 160}));
    EXPECT_EQ(ints_of(to.qkv.tensor), (std::vector{0, 144, 144, 480, 480, 480}));
  }
}

TEST_F(CudnnLayouts, AlignsTablesOfEachCall) {
  if constexpr (kHasCuda) {
    const TestTensor documents = from_ints(std::vector{0, 3, 4, 10}, {4});
    AttentionMask mask;
    mask.documents = documents.tensor;
    Tables to(7);  // two calls of two documents, of 4 elements each
    to.tables.documents = 2;
    std::ranges::fill(to.queries.tensor.span<int32_t>(), -1);
    std::ranges::fill(to.statistics.tensor.span<int32_t>(), -1);
    cuda::describe_documents(mask, {3, 10, 10, true}, 2, {48, 16, 2}, to.tables);
    EXPECT_EQ(ints_of(to.queries.tensor), (std::vector{3, 1, -1, -1, 6, 0, -1}));
    EXPECT_EQ(ints_of(to.statistics.tensor), (std::vector{0, 6, 8, -1, 8, 20, 20, -1}));
    EXPECT_EQ(to.tables.place_of(2), 4);
  }
}

TEST_F(CudnnLayouts, LengthsAndWindowLimitKeysAndQueries) {
  if constexpr (kHasCuda) {
    const TestTensor lengths = from_ints(std::vector{10, 4, 0}, {3});
    AttentionMask mask;
    mask.lengths = lengths.tensor;
    const Tables whole(3);
    cuda::describe_documents(mask, {3, 10, 10, false}, 1, {48, 16, 2}, whole.tables);
    EXPECT_EQ(ints_of(whole.keys.tensor), (std::vector{10, 4, 0}));
    EXPECT_EQ(ints_of(whole.queries.tensor), (std::vector{10, 10, 0}));
    mask.window = 3;
    cuda::describe_documents(mask, {3, 10, 10, false}, 1, {48, 16, 2}, whole.tables);
    EXPECT_EQ(ints_of(whole.queries.tensor), (std::vector{10, 6, 0}));

    const TestTensor documents = from_ints(std::vector{0, 10, 13, 20, 25, 30}, {6});
    mask.documents = documents.tensor;
    const Tables cut(5);
    cuda::describe_documents(mask, {5, 10, 10, true}, 1, {48, 16, 2}, cut.tables);
    EXPECT_EQ(ints_of(cut.keys.tensor), (std::vector{10, 3, 1, 0, 0}));
    EXPECT_EQ(ints_of(cut.queries.tensor), (std::vector{10, 3, 3, 0, 0}));
  }
}

TEST_F(CudnnLayouts, ConvertsStatisticsBothWays) {
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
