#include <gtest/gtest.h>

#include <string>

#include "launch/support/text/terminal.h"

namespace tessera {
namespace {

TEST(TerminalColumns, CutsBetweenCharacters) {
  EXPECT_EQ(first_columns("loss", 10), "loss");
  EXPECT_EQ(first_columns("loss", 2), "lo");
  EXPECT_EQ(first_columns("▁▂▃", 2), "▁▂");
  EXPECT_EQ(first_columns("▁▂▃", 0), "");
}

TEST(TerminalColumns, BreaksBetweenFields) {
  EXPECT_EQ(in_columns({"step 1/9", "loss 2", "norm 3"}, 80), "step 1/9  loss 2  norm 3");
  EXPECT_EQ(in_columns({"step 1/9", "loss 2", "norm 3"}, 24), "step 1/9  loss 2  norm 3");
  EXPECT_EQ(in_columns({"step 1/9", "loss 2", "norm 3"}, 23), "step 1/9  loss 2\n    norm 3");
}

TEST(TerminalColumns, BreaksBetweenWords) {
  EXPECT_EQ(wrapped("a line that fits", 16), "a line that fits");
  EXPECT_EQ(wrapped("  a line that does not", 12), "  a line\n    that\n    does not");
  EXPECT_EQ(wrapped("one\n\ntwo three", 6), "one\n\ntwo\n  three");
  EXPECT_EQ(wrapped("/a/path/without/spaces x", 8), "/a/path/without/spaces x");
}

}  // namespace
}  // namespace tessera
