#include "launch/support/text/terminal_text.h"

#include <gtest/gtest.h>

#include <string>

#include "launch/support/text/json.h"

namespace tessera {
namespace {

TEST(TerminalText, EscapesWhatDrivesATerminalAndKeepsText) {
  constexpr const char* kCases[][2] = {
      {"a\tb\nč 漢 🙂 \xd7\xa9", "a\tb\nč 漢 🙂 \xd7\xa9"},
      {"\x1b[2J\x07\r", "\\x1b[2J\\x07\\x0d"},
      {"\x7f \u0080\u009b0m\u009f \u00a7", "\\u007f \\u0080\\u009b0m\\u009f \u00a7"},
      {"\xff\x80 \xc3", "\\xff\\x80 \\xc3"},  // not UTF-8
      {"a\u202e\u2066b\u2069\u202c", "a\\u202e\\u2066b\\u2069\\u202c"},
  };
  for (const auto& [text, shown] : kCases) EXPECT_EQ(for_terminal(text), shown);
}

TEST(TerminalText, KeepsTheMeaningOfJson) {
  const Json value = {{"text", "\x1b \x7f \u009b \u202e č"}};
  EXPECT_EQ(parse_json(for_terminal(to_text(value)), "it"), value);
}

TEST(TerminalText, SeesCharactersAcrossPieces) {
  TerminalText text;
  EXPECT_EQ(text.add("a\xe2"), "a");
  EXPECT_EQ(text.add("\x80"), "");
  EXPECT_EQ(text.add("\xae\xc4"), "\\u202e");
  EXPECT_EQ(text.add("\x8d\xc2"), "č");
  EXPECT_EQ(text.add("\n"), "\\xc2\n");
}

}  // namespace
}  // namespace tessera
