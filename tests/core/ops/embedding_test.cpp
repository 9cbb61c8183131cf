#include "core/ops/embedding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};

TEST(Embedding, ForwardCopiesLocalRowsOrZeros) {
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {1, 3, 17, 127, 769}) {
      const Range local{5, 12};
      const TestTensor table = random_tensor({8, columns}, dtype, 1);  // with a padding row
      const TestTensor ids = from_ints({{4, 5, 11, 12, 7, 7, -1, 0}}, {2, 4});
      const TestTensor out = random_tensor({2, 4, columns}, dtype, 2);
      embedding_forward(ids.tensor, table.tensor, local, out.tensor);
      const Tensor rows = out.tensor.view({8, columns});
      const TestTensor zeros({1, columns}, dtype);
      for (int64_t n = 0; n < 8; ++n) {
        const int32_t id = ids.tensor.span<int32_t>()[static_cast<size_t>(n)];
        const Tensor expected = local.contains(id)
                                    ? table.tensor.slice(id - local.begin, id - local.begin + 1)
                                    : zeros.tensor;
        expect_same_bits(rows.slice(n, n + 1), expected, "row");
      }
    }
  }
}

TEST(Embedding, BackwardSumsInOrderOfIds) {
  constexpr int64_t kCount = 1200;
  const Range local{3, 40};
  const TestTensor ids = random_ints({kCount}, 0, 50, 1);
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {1, 3, 65, 769}) {
      const TestTensor dout = random_tensor({kCount, columns}, dtype, 2);
      const TestTensor start = random_tensor({local.size() + 2, columns}, DType::f32, 3);
      // The order and precision are specified, so the bits are known.
      const TestTensor expected = copy_of(start.tensor);
      const auto values = to_doubles(dout.tensor);
      for (int64_t n = 0; n < kCount; ++n) {
        const int64_t id = ids.tensor.span<int32_t>()[static_cast<size_t>(n)];
        if (!local.contains(id)) continue;
        for (int64_t c = 0; c < columns; ++c) {
          expected.tensor.data<float>()[(id - local.begin) * columns + c] +=
              static_cast<float>(values[static_cast<size_t>(n * columns + c)]);
        }
      }
      for (const int threads : {1, 2, 3}) {
        const ThreadCount count(threads);
        const TestTensor dtable = copy_of(start.tensor);
        embedding_backward(ids.tensor, dout.tensor, local, dtable.tensor);
        expect_same_bits(dtable.tensor, expected.tensor, "dtable");
      }
    }
  }
}

TEST(Embedding, AddsAnotherEmbedding) {
  constexpr int64_t kRows = 15, kTable = 9;
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {1, 17, 769}) {
      const TestTensor x = random_tensor({3, 5, columns}, dtype, 1);
      const TestTensor table = random_tensor({kTable, columns}, dtype, 2);
      const TestTensor ids = test::random_ints({kRows}, 0, kTable, 3);
      auto expected = to_doubles(x.tensor);
      const auto rows = to_doubles(table.tensor);
      for (size_t i = 0; i < expected.size(); ++i) {
        const auto width = static_cast<size_t>(columns);
        const auto id = static_cast<size_t>(ids.tensor.span<int32_t>()[i / width]);
        expected[i] += rows[id * width + i % width];
      }
      const TestTensor out({3, 5, columns}, dtype);
      embedding_add(x.tensor, ids.tensor, table.tensor, out.tensor);
      expect_close(out.tensor, expected, unit_roundoff(dtype), "out");
      embedding_add(x.tensor, ids.tensor, table.tensor, x.tensor);
      expect_same_bits(x.tensor, out.tensor, "out in place of x");
    }
  }
}

TEST(Embedding, RefusesIdsOutOfRange) {
  if (on_gpu()) GTEST_SKIP() << "a GPU op does not check ids on the host; it writes NaN";
  const TestTensor x({2, 4}, DType::f32), table({8, 4}, DType::f32);
  for (const int32_t id : {-1, 8}) {
    const TestTensor ids = test::from_ints(std::vector<int32_t>{3, id}, {2});
    expect_error([&] { embedding_add(x.tensor, ids.tensor, table.tensor, x.tensor); },
                 {"embedding_add", std::to_string(id).c_str(), "table of 8 rows"});
  }
}

TEST(Embedding, IdsOutOfRangeAreNaNOnGpu) {
  if (!on_gpu()) GTEST_SKIP() << "the CPU throws an error instead";
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {3, 16}) {
      const TestTensor x = random_tensor({4, columns}, dtype, 1);
      const TestTensor table = random_tensor({8, columns}, dtype, 2), out({4, columns}, dtype);
      const TestTensor ids = from_ints({{3, -1, 8, 7}}, {4});
      embedding_add(x.tensor, ids.tensor, table.tensor, out.tensor);
      const auto sums = to_doubles(out.tensor);
      for (size_t i = 0; i < sums.size(); ++i) {
        const size_t n = i / static_cast<size_t>(columns);
        EXPECT_EQ(std::isnan(sums[i]), n == 1 || n == 2);
      }
    }
  }
}

TEST(Embedding, RefusesWrongArguments) {
  const TestTensor ids({2, 4}, DType::i32, kMeta), table({8, 16}, DType::bf16, kMeta);
  const TestTensor out({2, 4, 16}, DType::bf16, kMeta), dtable({8, 16}, DType::f32, kMeta);
  embedding_forward(ids.tensor, table.tensor, {0, 8}, out.tensor);
  embedding_backward(ids.tensor, out.tensor, {0, 8}, dtable.tensor);
  embedding_add(out.tensor, ids.tensor, table.tensor, out.tensor);
  expect_error(
      [&] {
        embedding_forward(ids.tensor, table.tensor, {0, 9}, out.tensor);
      },
      {"embedding_forward", "table", "at least 9", "(8, 16)"});
  expect_error(
      [&] {
        embedding_forward(ids.tensor, table.tensor, {3, 2}, out.tensor);
      },
      {"embedding_forward", "[3, 2)"});
  expect_error(
      [&] {
        embedding_forward(out.tensor, table.tensor, {0, 8}, out.tensor);
      },
      {"embedding_forward", "ids", "int32"});
  expect_error(
      [&] {
        embedding_forward(ids.tensor, table.tensor, {0, 8}, table.tensor);
      },
      {"embedding_forward", "out", "(2, 4, 16)"});
  expect_error(
      [&] {
        embedding_backward(ids.tensor, out.tensor, {0, 8}, table.tensor);
      },
      {"embedding_backward", "dtable", "fp32"});
  expect_error([&] { embedding_add(table.tensor, ids.tensor, table.tensor, out.tensor); },
               {"embedding_add", "out"});
  const Tensor few = ids.tensor.slice(0, 1);
  expect_error([&] { embedding_add(out.tensor, few, table.tensor, out.tensor); },
               {"embedding_add", "(2, 4, 16)", "4 ids"});
}

}  // namespace
}  // namespace tessera
