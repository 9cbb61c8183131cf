#include "launch/tokenizers/text/byte_level_words.h"

#include <random>

#include "launch/tokenizers/text/byte_alphabet.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view text) {
  Words words;
  for_each_byte_level_word(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(ByteAlphabet, MatchesGpt2) {
  EXPECT_EQ(to_alphabet(" a\n\x7f\xad\xff"), "ĠaĊġŃÿ");
  EXPECT_EQ(from_alphabet("ĠaĊġŃÿ"), " a\n\x7f\xad\xff");
  const auto& order = bytes_in_alphabet_order();
  EXPECT_EQ(order[0], '!');
  EXPECT_EQ(order[187], 0xFF);  // the last that stands for itself
  EXPECT_EQ(order[188], 0);
  EXPECT_EQ(order[220], ' ');
  EXPECT_EQ(order[255], 0xAD);
  std::string all;
  for (const uint8_t byte : order) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(from_alphabet(to_alphabet(all)), all);
}

TEST(ByteAlphabet, RejectsOtherCharacters) {
  for (const char* text : {" ", "\n", "a b", "\u00a0", "\u00ad", "\u0144", "狐", "\xc3", "\xc3(",
                           "\xff", "\xc0\xaf", "😀"}) {
    EXPECT_EQ(from_alphabet(text), std::nullopt) << text;
  }
}

TEST(ByteLevelWords, MatchGpt2) {
  EXPECT_EQ(words_of("Hello world, it's 42 o'clock!!"),
            (Words{"Hello", " world", ",", " it", "'s", " 42", " o", "'", "clock", "!!"}));
  EXPECT_EQ(words_of("we'll they're I've I'm he'd don't IT'S ''s 's"),
            (Words{"we", "'ll", " they", "'re", " I", "'ve", " I", "'m", " he", "'d", " don", "'t",
                   " IT", "'", "S", " ''", "s", " '", "s"}));
  EXPECT_EQ(words_of("a  b\n\nc \td  "),
            (Words{"a", " ", " b", "\n", "\n", "c", " ", "\t", "d", "  "}));
  EXPECT_EQ(words_of("x\u3000y\u00a0\u2028z"),
            (Words{"x", "\u3000", "y", "\u00a0", "\u2028", "z"}));
  EXPECT_EQ(words_of("né狐 ½Ⅷ٣ e\u0301"), (Words{"né狐", " ½Ⅷ٣", " e", "\u0301"}));
  EXPECT_EQ(words_of(" "), (Words{" "}));
  EXPECT_EQ(words_of(""), Words{});
}

TEST(ByteLevelWords, TreatInvalidUtf8AsOther) {
  EXPECT_EQ(words_of("a\xff\xfe!b \xe7\x8b c"), (Words{"a", "\xff\xfe!", "b", " \xe7\x8b", " c"}));
  EXPECT_EQ(words_of("\xe7\x8b"), (Words{"\xe7\x8b"}));
}

/// Builds text from parts that affect how byte-level words are split.
std::string random_text(std::mt19937& random, int parts_count) {
  const char* const parts[] = {"a", "s",      "t",      "re",     "l",  "v",    "e",    "'",
                               "'", " ",      " ",      "\n",     "\t", "7",    "狐",   "!",
                               "é", "\u3000", "\u0301", "\u2028", "½",  "\xe7", "\x8b", "\xff"};
  std::string text;
  for (int i = 0; i < parts_count; ++i) text += parts[random() % std::size(parts)];
  return text;
}

// By definition, last_byte_level_word_end() is the last position where a word ends whatever
// follows.
TEST(ByteLevelWords, LastEndHoldsWhateverFollows) {
  std::mt19937 random(1);
  const char* const following[] = {"",     "a",        "s",   "e",     "l",    " ",
                                   "\n",   "!",        "'",   "7",     "\x8b", "\x8b\x90",
                                   "\x90", "\x80\x80", "  x", "\u3000"};
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random, 1 + round % 9);
    std::vector<size_t> always;
    for (size_t n = 1; n <= text.size(); ++n) {
      const bool ends = std::all_of(std::begin(following), std::end(following), [&](auto* more) {
        size_t end = 0;
        for (const std::string& word : words_of(text + more)) {
          end += word.size();
          if (end >= n) return end == n;
        }
        return false;
      });
      if (ends) always.push_back(n);
    }
    for (const bool before_space : {false, true}) {
      const auto fits = [&](size_t n) {
        return n == 0 || (std::count(always.begin(), always.end(), n) == 1 &&
                          (!before_space || (n < text.size() && text[n] == ' ')));
      };
      const size_t end = last_byte_level_word_end(text, before_space);
      ASSERT_TRUE(fits(end)) << ::testing::PrintToString(text) << " at " << end;
      // Skip texts that end within a character: its first bytes are not decoded.
      if (text.back() == '\xe7' || text.back() == '\x8b') continue;
      for (size_t n = end + 1; n <= text.size(); ++n) {
        ASSERT_FALSE(fits(n)) << ::testing::PrintToString(text) << " at " << n << ", not " << end;
      }
    }
  }
}

TEST(ByteLevelWords, TrimTrailingWhiteSpace) {
  EXPECT_EQ(without_trailing_space("a b \n\u3000"), "a b");
  EXPECT_EQ(without_trailing_space(" \u00a0"), "");
  EXPECT_EQ(without_trailing_space("a\xff"), "a\xff");
}

}  // namespace
}  // namespace tessera
