#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/ops/cross_entropy.h"
#include "core/ops/embedding.h"
#include "core/ops/rows.h"
#include "tests/support/reference.h"
#include "tests/support/shifted.h"
#include "tests/support/tensors.h"

/// Like kernel_shapes_test.cpp, for ops on rows: sizes around the boundaries of packs, warps,
/// blocks, the tiles and runs of a sort, and the pieces of a sum, and unaligned views.
namespace tessera {
namespace {

using namespace test;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};

/// table + the gradient of an embedding, from the reference.
std::vector<double> with_gradient(const Tensor& table, const Tensor& ids, const Tensor& dout,
                                  Range local) {
  auto sums = to_doubles(table);
  const auto gradient = to_doubles(dout);
  const auto width = static_cast<size_t>(table.dim(1));
  for (size_t n = 0; n < static_cast<size_t>(ids.numel()); ++n) {
    const int32_t id = ids.span<int32_t>()[n];
    if (!local.contains(id)) continue;
    const size_t row = static_cast<size_t>(id - local.begin) * width;
    for (size_t c = 0; c < width; ++c) sums[row + c] += gradient[n * width + c];
  }
  return sums;
}

struct EmbeddingCase {
  int64_t count;
  int32_t ids;  ///< are in [0, ids)
  int64_t columns;
};

TEST(KernelRows, EmbeddingGradientsOfFewAndManyTokensPerRow) {
  constexpr EmbeddingCase kCases[] = {
      {1, 1, 1},     {15, 2, 8},    {16, 1, 40},   {17, 3, 8},   {63, 1, 8},      {64, 1, 3},
      {65, 1, 8},    {128, 2, 16},  {129, 1, 8},   {1023, 2, 4}, {1024, 9, 8},    {1025, 700, 8},
      {3000, 2, 24}, {3000, 1, 72}, {2500, 50, 3}, {9000, 5, 1}, {9000, 4000, 1}, {70000, 3, 1}};
  for (const DType dtype : kDTypes) {
    for (const EmbeddingCase& c : kCases) {
      SCOPED_TRACE(fmt::format("{}: {} tokens of {}, {} columns", to_string(dtype), c.count, c.ids,
                               c.columns));
      const Range local{0, std::max(1, c.ids - 1)};  // the last is another rank's
      const TestTensor ids = random_ints({c.count}, 0, c.ids, 1);
      const TestTensor dout = random_tensor({c.count, c.columns}, dtype, 2);
      const TestTensor start = random_tensor({local.size(), c.columns}, DType::f32, 3);
      const TestTensor dtable = copy_of(start.tensor);
      embedding_backward(ids.tensor, dout.tensor, local, dtable.tensor);
      expect_close(dtable.tensor, with_gradient(start.tensor, ids.tensor, dout.tensor, local),
                   sum_tolerance(DType::f32, c.count), "dtable");
      const TestTensor again = copy_of(start.tensor);
      embedding_backward(ids.tensor, dout.tensor, local, again.tensor);
      expect_same_bits(again.tensor, dtable.tensor, "again");
    }
  }
}

// The sum of a row depends only on its own tokens: not on the others, any number of which may
// precede it in the sorted order, nor on how the vocabulary is split.
TEST(KernelRows, EmbeddingRowHasSameBitsOnEveryLayout) {
  constexpr int64_t kCount = 2000, kColumns = 24;
  constexpr int32_t kRows = 7;
  const TestTensor ids = random_ints({kCount}, 0, kRows, 1);
  const TestTensor dout = random_tensor({kCount, kColumns}, DType::bf16, 2);
  const TestTensor whole({kRows, kColumns}, DType::f32);
  embedding_backward(ids.tensor, dout.tensor, {0, kRows}, whole.tensor);
  for (int64_t row = 0; row < kRows; ++row) {
    const TestTensor alone({1, kColumns}, DType::f32);
    embedding_backward(ids.tensor, dout.tensor, {row, row + 1}, alone.tensor);
    expect_same_bits(alone.tensor, whole.tensor.slice(row, row + 1), "a row");
  }
}

TEST(KernelRows, UnalignedViews) {
  constexpr int64_t kCount = 200, kRows = 3;
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {4, 8, 16, 264, 1032}) {
      const TestTensor ids = random_ints({kCount}, 0, kRows, 1);
      const TestTensor x = random_tensor({kCount, columns}, dtype, 2);
      const TestTensor table = random_tensor({kRows, columns}, dtype, 3);
      const TestTensor rows = from_ints({{2, 0, 1}}, {kRows});
      const TestTensor dtable({kRows, columns}, DType::f32), dx = copy_of(x.tensor);
      const TestTensor found({kCount, columns}, dtype), sum({kCount, columns}, dtype);
      embedding_forward(ids.tensor, table.tensor, {1, kRows}, found.tensor);
      embedding_add(x.tensor, ids.tensor, table.tensor, sum.tensor);
      embedding_backward(ids.tensor, x.tensor, {0, kRows}, dtable.tensor);
      scatter_add_rows(table.tensor, rows.tensor, dx.tensor);
      for (const int64_t offset : {1, 2, 4}) {
        SCOPED_TRACE(fmt::format("{}, {} columns, {} off", to_string(dtype), columns, offset));
        const Shifted x_off(x.tensor, offset), table_off(table.tensor, offset);
        const Shifted out(x.tensor, offset), dtable_off(dtable.tensor, offset);
        embedding_forward(ids.tensor, table_off.view, {1, kRows}, out.view);
        expect_same_bits(out.view, found.tensor, "embedding_forward");
        embedding_add(x_off.view, ids.tensor, table_off.view, out.view);
        expect_same_bits(out.view, sum.tensor, "embedding_add");
        fill(dtable_off.view, 0.0);
        embedding_backward(ids.tensor, x_off.view, {0, kRows}, dtable_off.view);
        expect_same_bits(dtable_off.view, dtable.tensor, "embedding_backward");
        scatter_add_rows(table_off.view, rows.tensor, x_off.view);
        expect_same_bits(x_off.view, dx.tensor, "scatter_add_rows");
      }
    }
  }
}

TEST(KernelRows, ArgmaxAroundWarpsAndBlocks) {
  for (const int64_t columns : {1, 2, 31, 32, 33, 511, 512, 513, 1025}) {
    const TestTensor x({columns, columns}, DType::bf16), out({columns}, DType::i32);
    fill(x.tensor, -2.0);
    std::vector<double> expected;
    for (int64_t n = 0; n < columns; ++n) {  // −1 in column n and in the last
      expected.push_back(static_cast<double>(n));
      x.tensor.data<bfloat16>()[n * columns + n] = bfloat16(-1.0f);
      x.tensor.data<bfloat16>()[(n + 1) * columns - 1] = bfloat16(-1.0f);
    }
    const int64_t step = std::max<int64_t>(1, columns / 40);
    for (int64_t n = 0; n < columns; n += step) {
      argmax_rows(x.tensor.slice(n, n + 1), out.tensor.slice(n, n + 1));
      ASSERT_EQ(out.tensor.span<int32_t>()[static_cast<size_t>(n)], n) << columns;
    }
  }
}

TEST(KernelRows, CrossEntropyAroundPacksAndBlocks) {
  constexpr int64_t kRows = 3;
  for (const DType dtype : kDTypes) {
    for (const int64_t valid : {1, 7, 8, 9, 255, 256, 257, 4095, 4096, 4097, 5000}) {
      const int64_t columns = (valid + 15) / 16 * 16;
      const TestTensor real = random_tensor({kRows, valid}, dtype, 1, 3.0f);
      const auto logits = to_doubles(real.tensor);
      std::vector<double> padded(static_cast<size_t>(kRows * columns), std::nan(""));
      for (int64_t i = 0; i < kRows * valid; ++i) {
        padded[static_cast<size_t>(i / valid * columns + i % valid)] =
            logits[static_cast<size_t>(i)];
      }
      const std::vector<int32_t> words = {static_cast<int32_t>(valid - 1), kIgnoreTarget, 0};
      const TestTensor x = from_doubles(padded, {kRows, columns}, dtype);
      const TestTensor targets = from_ints(words, {kRows});
      const auto losses = reference::cross_entropy(logits, words, valid);
      const auto gradient = reference::cross_entropy_gradient(logits, words, valid);
      std::vector<double> expected(padded.size(), 0.0);
      for (int64_t i = 0; i < kRows * valid; ++i) {
        expected[static_cast<size_t>(i / valid * columns + i % valid)] =
            gradient[static_cast<size_t>(i)];
      }
      for (const int64_t offset : {0, 1}) {
        SCOPED_TRACE(fmt::format("{}, {} words, {} off", to_string(dtype), valid, offset));
        const Shifted in(x.tensor, offset);
        const TestTensor max({kRows}, DType::f32), sum({kRows}, DType::f32);
        const TestTensor target({kRows}, DType::f32), loss({1}, DType::f64);
        cross_entropy_statistics(in.view, targets.tensor, 0, valid, max.tensor, sum.tensor,
                                 target.tensor);
        cross_entropy_loss(max.tensor, sum.tensor, target.tensor, targets.tensor, max.tensor,
                           loss.tensor);
        // As in cross_entropy_test.cpp: log_sum_exp, up to 16, is rounded to fp32.
        const double rounding = 16 * unit_roundoff(DType::f32);
        expect_close(to_doubles(loss.tensor), std::vector<double>{losses[0] + losses[2]},
                     sum_tolerance(DType::f32, valid) + rounding, "loss");
        cross_entropy_gradient(in.view, targets.tensor, 0, valid, max.tensor, 1.0f);
        expect_close(in.view, expected, sum_tolerance(dtype, valid) + rounding, "gradient");
      }
    }
  }
}

}  // namespace
}  // namespace tessera
