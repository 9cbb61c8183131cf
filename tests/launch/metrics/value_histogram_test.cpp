#include "launch/metrics/value_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera {
namespace {

TEST(ValueHistogram, CountsEachValueInItsBucket) {
  for (int64_t i = 1; i < ValueHistogram::kBuckets; ++i) {
    ASSERT_LT(ValueHistogram::end_of(i - 1), ValueHistogram::end_of(i));
  }
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1.0f, -1.0f, 0.1f, -0.1f, 3.5e-5f, -7e8f, 1e-17f, 1234.5f};
  for (const float value : values) {
    ValueHistogram one;
    one.add(std::vector<float>{value, inf, -inf, std::nanf("")});
    ASSERT_EQ(one.total(), 1);
    int64_t bucket = 0;
    while (one.counts[static_cast<size_t>(bucket)] == 0) ++bucket;
    ASSERT_GT(bucket, 0);
    const double begin = ValueHistogram::end_of(bucket - 1), end = ValueHistogram::end_of(bucket);
    EXPECT_LE(begin, double{value});
    EXPECT_LE(double{value}, end);
    EXPECT_LE(end - begin, std::abs(double{value}) / 7.9) << "an eighth of an octave";
    EXPECT_EQ(one.least, double{value});
    EXPECT_EQ(one.largest, double{value});
    EXPECT_EQ(one.sum, double{value});
    EXPECT_DOUBLE_EQ(one.sum_squares, double{value} * double{value});
  }
}

TEST(ValueHistogram, CountsWhatIsTooSmallAndTooLargeAtTheEnds) {
  ValueHistogram found;
  found.add(std::vector<float>{0.0f, -0.0f, 1e-30f, -1e-40f, 1e30f, -1e30f});
  EXPECT_EQ(found.counts[ValueHistogram::kPerSign], 4);
  EXPECT_EQ(found.counts.front(), 1);
  EXPECT_EQ(found.counts.back(), 1);
}

}  // namespace
}  // namespace tessera
