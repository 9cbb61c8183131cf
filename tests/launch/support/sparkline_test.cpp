#include "launch/support/text/sparkline.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(Sparkline, ShowsTheWholeCourseInFewCharacters) {
  Sparkline line(4);
  EXPECT_EQ(line.text(), "");
  line.add(7.0);
  EXPECT_EQ(line.text(), "");
  line.add(std::nan(""));
  line.add(0.0);
  line.add(4.0);
  EXPECT_EQ(line.text(), "█▁▅");
  line.add(1.0);
  EXPECT_EQ(line.text(), "█▁▅▂");
  line.add(3.5);  // the means of two: 3.5, 2.5, and this one
  EXPECT_EQ(line.text(), "█▁█");
  for (int i = 0; i < 1000; ++i) {
    line.add(1.0);
    EXPECT_LE(line.text().size(), 4 * 3u);
  }
}

TEST(Sparkline, IsFlatForAConstant) {
  Sparkline line;
  for (int i = 0; i < 3; ++i) line.add(2.0);
  EXPECT_EQ(line.text(), "▁▁▁");
}

}  // namespace
}  // namespace tessera
