#include "launch/support/text/terminal_text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(TerminalText, EscapesControlsAndKeepsText) {
  EXPECT_EQ(for_terminal("a\tb\nč 漢 🙂"), "a\tb\nč 漢 🙂");
  EXPECT_EQ(for_terminal("\x1b[2J\x07\r\x7f"), "\\x1b[2J\\x07\\x0d\\x7f");
  EXPECT_EQ(for_terminal("\xc2\x9b"
                         "0m \xc2\xa7"),
            "\xc2\\x9b0m \xc2\xa7");                // CSI in UTF-8
  EXPECT_EQ(for_terminal("\xff\x80"), "\xff\x80");  // not UTF-8, and no control
}

TEST(TerminalText, SeesControlsAcrossPieces) {
  TerminalText text;
  EXPECT_EQ(text.add("\xc2"), "\xc2");
  EXPECT_EQ(text.add("\x9b"), "\\x9b");
  EXPECT_EQ(text.add("\x9b"), "\x9b");
}

}  // namespace
}  // namespace tessera
