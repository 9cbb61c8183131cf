#include "parallel/row_split.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(RowSplitTest, SharesTileTheRowsInEqualChunks) {
  for (const int64_t rows : {0, 1, 2, 3, 4, 5, 7, 8, 13, 1024}) {
    for (const int parts : {1, 2, 3, 4, 8}) {
      int64_t next = 0;
      for (int index = 0; index < parts; ++index) {
        const RowSplit split = RowSplit{parts, index}.of(rows);
        EXPECT_EQ(split.held().begin, next);
        EXPECT_LE(split.held().size(), split.chunk());
        next = split.held().end;
      }
      EXPECT_EQ(next, rows) << rows << " over " << parts;
    }
  }
}

TEST(RowSplitTest, TheLastRanksMayHaveNone) {
  const auto held = [](int index) { return RowSplit{4, index, 5}.held(); };
  EXPECT_EQ(held(0), (Range{0, 2}));
  EXPECT_EQ(held(1), (Range{2, 4}));
  EXPECT_EQ(held(2), (Range{4, 5}));
  EXPECT_EQ(held(3), (Range{5, 5}));
}

TEST(RowSplitTest, ViewsAndShapesAreThoseOfTheShare) {
  float values[15] = {};
  const Tensor whole(values, {5, 3}, DType::f32, kCpu);
  const RowSplit split{2, 1, 5};
  EXPECT_EQ(split.held_of(whole).raw(), values + 9);
  EXPECT_EQ(split.held_of(whole).shape(), (Shape{2, 3}));
  EXPECT_EQ(split.held_shape({1, 5, 3}), (Shape{1, 2, 3}));
  EXPECT_EQ(split.whole_shape({1, 2, 3}), (Shape{1, 5, 3}));
}

TEST(RowSplitTest, OneRankHoldsAllWhateverTheirNumber) {
  const RowSplit one;
  EXPECT_FALSE(one.split());
  EXPECT_EQ(one.held_shape({2, 6, 3}), (Shape{2, 6, 3}));
  EXPECT_EQ(one.whole_shape({2, 6, 3}), (Shape{2, 6, 3}));
  EXPECT_FALSE(one.held_of({}).defined());
}

}  // namespace
}  // namespace tessera
