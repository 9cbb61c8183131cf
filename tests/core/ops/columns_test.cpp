#include "core/ops/columns.h"

#include <gtest/gtest.h>

#include "core/ops/positions.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

TEST(Columns, JoinsPartsWithoutPadding) {
  constexpr int64_t kRanks = 3, kRows = 4;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t width : {1, 16, 48, 300}) {
      const TestTensor parts = random_tensor({kRanks, kRows, width}, dtype, 1);
      const auto source = to_doubles(parts.tensor);
      // The last rank's columns are padding in part or entirely.
      for (const int64_t columns : {3 * width, 3 * width - width / 3, 2 * width, 2 * width - 1}) {
        const TestTensor out({kRows, columns}, DType::f32);
        join_columns(parts.tensor, out.tensor);
        std::vector<double> expected;
        for (int64_t n = 0; n < kRows; ++n) {
          for (int64_t c = 0; c < columns; ++c) {
            const int64_t rank = c / width;
            expected.push_back(
                source[static_cast<size_t>((rank * kRows + n) * width + c - rank * width)]);
          }
        }
        EXPECT_EQ(to_doubles(out.tensor), expected);
      }
    }
  }
}

TEST(Columns, CopiesSomeColumns) {
  constexpr int64_t kRows = 5;
  struct Copy {
    int64_t width, first, width_out, first_out, columns;
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Copy& c : {Copy{7, 2, 9, 1, 4}, Copy{600, 64, 640, 128, 512}, Copy{8, 0, 8, 0, 8},
                          Copy{48, 8, 40, 16, 1}, Copy{3, 3, 4, 4, 0}}) {
      const TestTensor x = random_tensor({kRows, c.width}, dtype, 1);
      const TestTensor out = random_tensor({kRows, c.width_out}, dtype, 2);
      auto expected = to_doubles(out.tensor);
      const auto source = to_doubles(x.tensor);
      for (int64_t n = 0; n < kRows; ++n) {
        for (int64_t i = 0; i < c.columns; ++i) {
          expected[static_cast<size_t>(n * c.width_out + c.first_out + i)] =
              source[static_cast<size_t>(n * c.width + c.first + i)];
        }
      }
      copy_columns(x.tensor, c.first, out.tensor, c.first_out, c.columns);
      EXPECT_EQ(to_doubles(out.tensor), expected);
    }
  }
}

TEST(Columns, RefusesWrongColumns) {
  const TestTensor x({3, 8}, DType::f32), out({3, 5}, DType::f32), fewer({2, 5}, DType::f32);
  expect_error([&] { copy_columns(x.tensor, 5, out.tensor, 0, 4); },
               {"copy_columns", "x has 8 columns", "4 from 5"});
  expect_error([&] { copy_columns(x.tensor, 0, out.tensor, 2, 4); },
               {"copy_columns", "out has 5 columns", "4 from 2"});
  expect_error([&] { copy_columns(x.tensor, 0, fewer.tensor, 0, 1); },
               {"copy_columns", "same number of rows"});
}

TEST(Columns, RefusesWrongArguments) {
  const OwnedTensor parts({2, 3, 8}, DType::bf16, kMeta), wide({3, 17}, DType::f32, kMeta);
  const OwnedTensor narrow({3, 5}, DType::bf16, kMeta);
  expect_error([&] { join_columns(parts.tensor, wide.tensor); },
               {"join_columns", "(3, at most 16)", "(3, 17)"});
  expect_error([&] { join_columns(parts.tensor, narrow.tensor); }, {"join_columns", "out", "fp32"});
}

TEST(Positions, CountFromFirstInEachSequence) {
  const TestTensor positions({3, 100}, DType::i32);
  fill_positions(17, positions.tensor);
  for (size_t i = 0; i < 300; ++i) {
    ASSERT_EQ(positions.tensor.span<int32_t>()[i], static_cast<int32_t>(17 + i % 100));
  }
  const TestTensor none({3, 0}, DType::i32);
  fill_positions(17, none.tensor);
}

TEST(Positions, RefusesWrongArguments) {
  const OwnedTensor wrong({3}, DType::i32, kMeta), floats({3, 2}, DType::f32, kMeta);
  expect_error([&] { fill_positions(0, wrong.tensor); }, {"fill_positions", "(B, T)", "(3)"});
  expect_error([&] { fill_positions(0, floats.tensor); }, {"fill_positions", "int32"});
}

}  // namespace
}  // namespace tessera
