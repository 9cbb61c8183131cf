#include "launch/tools/attention/token_label.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(TokenLabel, ShowsPrintableTextUnchanged) {
  EXPECT_EQ(token_label("mat", 14), "mat");
  EXPECT_EQ(token_label("##ing", 14), "##ing");
  EXPECT_EQ(token_label("Straße 漢字", 14), "Straße␣漢字");
  EXPECT_EQ(token_label("", 14), "");
}

TEST(TokenLabel, MakesSpacesAndControlCharactersVisible) {
  EXPECT_EQ(token_label(" the", 14), "␣the");
  EXPECT_EQ(token_label("\n\t", 14), "⏎⇥");
  EXPECT_EQ(token_label(std::string_view("\0\x1F\x7F", 3), 14), "␀␟␡");
}

TEST(TokenLabel, NamesInvisibleAndBidiCharacters) {
  EXPECT_EQ(token_label("\u202Etxet", 14), "U+202Etxet");
  EXPECT_EQ(token_label("\u200B", 14), "U+200B");
  EXPECT_EQ(token_label("\uFEFF", 14), "U+FEFF");
  EXPECT_EQ(token_label("\u0085", 14), "U+0085");
}

TEST(TokenLabel, ShowsInvalidUtf8AsHex) {
  EXPECT_EQ(token_label("\xFF", 14), "\\xFF");
  EXPECT_EQ(token_label("\xC3", 14), "\\xC3") << "a truncated character";
  EXPECT_EQ(token_label("a\xE2\x82", 14), "a\\xE2\\x82");
  EXPECT_EQ(token_label("\xC0\xBC", 14), "\\xC0\\xBC") << "an overlong '<'";
  EXPECT_EQ(token_label("\xE0\x80\xBC", 14), "\\xE0\\x80\\xBC");
  EXPECT_EQ(token_label("\xED\xA0\x80", 14), "\\xED\\xA0\\x80") << "a surrogate";
  EXPECT_EQ(token_label("\xF4\x90\x80\x80", 14), "\\xF4\\x90\\x80\\x80") << "beyond U+10FFFF";
}

TEST(TokenLabel, TruncatesBetweenCharacters) {
  EXPECT_EQ(token_label("abcde", 5), "abcde");
  EXPECT_EQ(token_label("abcdef", 5), "abcde…");
  EXPECT_EQ(token_label("äöüß", 2), "äö…");
}

}  // namespace
}  // namespace tessera
