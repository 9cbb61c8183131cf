#include "parallel/sequence_shard.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(SequenceShardTest, ShardsCoverRowsInEqualChunks) {
  for (const int64_t rows : {0, 1, 2, 3, 4, 5, 7, 8, 13, 1024}) {
    for (const int parts : {1, 2, 3, 4, 8}) {
      int64_t next = 0;
      for (int index = 0; index < parts; ++index) {
        const SequenceShard split = SequenceShard{parts, index}.of(rows);
        EXPECT_EQ(split.local().begin, next);
        EXPECT_LE(split.local().size(), split.chunk());
        next = split.local().end;
      }
      EXPECT_EQ(next, rows) << rows << " over " << parts;
    }
  }
}

TEST(SequenceShardTest, LastRanksMayHaveNoRows) {
  const auto local = [](int index) { return SequenceShard{4, index, 5}.local(); };
  EXPECT_EQ(local(0), (Range{0, 2}));
  EXPECT_EQ(local(1), (Range{2, 4}));
  EXPECT_EQ(local(2), (Range{4, 5}));
  EXPECT_EQ(local(3), (Range{5, 5}));
}

TEST(SequenceShardTest, ViewsAndShapesAreLocal) {
  float values[15] = {};
  const Tensor whole(values, {5, 3}, DType::f32, kCpu);
  const SequenceShard split{2, 1, 5};
  EXPECT_EQ(split.local_of(whole).raw(), values + 9);
  EXPECT_EQ(split.local_of(whole).shape(), (Shape{2, 3}));
  EXPECT_EQ(split.local_shape_of({1, 5, 3}), (Shape{1, 2, 3}));
  EXPECT_EQ(split.global_shape_of({1, 2, 3}), (Shape{1, 5, 3}));
}

TEST(SequenceShardTest, OneRankHasAllRows) {
  const SequenceShard one;
  EXPECT_FALSE(one.split());
  EXPECT_EQ(one.local_shape_of({2, 6, 3}), (Shape{2, 6, 3}));
  EXPECT_EQ(one.global_shape_of({2, 6, 3}), (Shape{2, 6, 3}));
  EXPECT_FALSE(one.local_of({}).defined());
}

}  // namespace
}  // namespace tessera
