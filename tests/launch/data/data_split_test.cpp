#include "launch/data/sampling/data_split.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace tessera {
namespace {

TEST(SplitData, HoldsOutTheEnd) {
  const DataSplit split = split_data(1000, 0.25);
  EXPECT_EQ(split.train, (Range{0, 750}));
  EXPECT_EQ(split.eval, (Range{750, 1000}));
  EXPECT_TRUE(split.test.empty());
  EXPECT_EQ(split_data(7, 0.5).train, (Range{0, 4}));
  EXPECT_TRUE(split_data(1000, 0.0).eval.empty());
  EXPECT_EQ(split_data(0, 0.5).train.size(), 0);
}

TEST(SplitData, PutsTestAfterEvaluation) {
  const DataSplit split = split_data(1000, 0.03, 0.001);
  EXPECT_EQ(split.of(DataPart::train), (Range{0, 969}));
  EXPECT_EQ(split.of(DataPart::eval), (Range{969, 999}));
  EXPECT_EQ(split.of(DataPart::test), (Range{999, 1000}));
  for (int64_t size = 0; size < 50; ++size) {
    const DataSplit some = split_data(size, 0.3, 0.69);
    EXPECT_EQ(some.train.begin, 0);
    EXPECT_EQ(some.train.end, some.eval.begin);
    EXPECT_EQ(some.eval.end, some.test.begin);
    EXPECT_EQ(some.test.end, size);
    EXPECT_EQ(some.train.empty(), size == 0);
  }
}

TEST(SplitData, RejectsInvalidFractions) {
  for (const double fraction : {-0.1, 1.0, 2.0, std::nan("")}) {
    EXPECT_THROW(split_data(1000, fraction), Error);
    EXPECT_THROW(split_data(1000, 0.0, fraction), Error);
  }
  EXPECT_THROW(split_data(1000, 0.5, 0.5), Error);
  EXPECT_THROW(split_data(-1, 0.5), Error);
}

}  // namespace
}  // namespace tessera
