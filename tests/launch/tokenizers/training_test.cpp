#include <map>
#include <random>
#include <set>

#include "launch/tokenizers/text/byte_level_words.h"
#include "launch/tokenizers/training/bpe_training.h"
#include "launch/tokenizers/training/count_words.h"
#include "launch/tokenizers/training/wordpiece_training.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"
#include "tests/launch/tokenizers/bpe_fixture.h"

namespace tessera {
namespace {

using Tokens = std::vector<std::string>;

Tokens with_special(const Tokens& more) {
  Tokens tokens(std::begin(kBertSpecial), std::end(kBertSpecial));
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

/// Repeatedly merges the most frequent adjacent pair of all words, counting from scratch each time.
Tokens train_textbook_wordpiece(const WordCounts& counts, size_t vocab_size, int64_t min_count) {
  std::set<std::string> starts, continuing;
  std::vector<std::pair<std::vector<std::string>, int64_t>> words;
  for (const auto& [word, count] : counts) {  // ASCII only
    std::vector<std::string> parts;
    for (const char c : word) {
      starts.insert(std::string(1, c));
      parts.push_back((parts.empty() ? "" : "##") + std::string(1, c));
      if (parts.size() > 1) continuing.insert(parts.back());
    }
    words.emplace_back(parts, count);
  }
  Tokens tokens = with_special({starts.begin(), starts.end()});
  tokens.insert(tokens.end(), continuing.begin(), continuing.end());
  const auto id = [&](const std::string& token) {
    return std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
  };
  while (tokens.size() < vocab_size) {
    std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
    for (const auto& [parts, count] : words) {
      for (size_t i = 1; i < parts.size(); ++i) pairs[{id(parts[i - 1]), id(parts[i])}] += count;
    }
    const auto best =
        std::max_element(pairs.begin(), pairs.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < min_count) break;
    const std::string left = tokens[static_cast<size_t>(best->first.first)];
    const std::string right = tokens[static_cast<size_t>(best->first.second)];
    const std::string joined = left + right.substr(2);
    if (id(joined) == static_cast<int64_t>(tokens.size())) tokens.push_back(joined);
    for (auto& [parts, count] : words) {
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        if (parts[i] != left || parts[i + 1] != right) continue;
        parts[i] = joined;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return tokens;
}

TEST(WordPieceTraining, MergesMostFrequentPair) {
  const WordCounts words = {{"aab", 3}, {"ab", 5}, {"b", 9}};
  // a + ##b occurs 5 times. Then ##a + ##b and a + ##a occur 3 times each, and a comes first.
  EXPECT_EQ(train_wordpiece(words, {.vocab_size = 10}),
            with_special({"a", "b", "##a", "##b", "ab"}));
  EXPECT_EQ(train_wordpiece(words, {.vocab_size = 100}),
            with_special({"a", "b", "##a", "##b", "ab", "aa", "aab"}));
  EXPECT_EQ(train_wordpiece(words, {.vocab_size = 100, .min_count = 4}),
            with_special({"a", "b", "##a", "##b", "ab"}));
}

TEST(WordPieceTraining, MatchesTextbook) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    WordCounts words;
    for (int i = 0; i < 40; ++i) {
      std::string word;
      const size_t length = 1 + random() % 10;
      for (size_t j = 0; j < length; ++j) word += static_cast<char>('a' + random() % 3);
      words[word] += static_cast<int64_t>(1 + random() % 5);
    }
    for (const int64_t vocab_size : {12, 30, 200}) {
      EXPECT_EQ(train_wordpiece(words, {.vocab_size = vocab_size}),
                train_textbook_wordpiece(words, static_cast<size_t>(vocab_size), 2));
    }
  }
}

TEST(WordPieceTraining, KeepsMostFrequentCharacters) {
  const WordCounts words = {{"aé", 3}, {"éx", 2}, {"ay", 1}};
  EXPECT_EQ(train_wordpiece(words, {.vocab_size = 8, .max_characters = 2}),
            with_special({"a", "é", "##é"}));
}

TEST(WordPieceTraining, RejectsInvalidRequests) {
  EXPECT_TRUE(names_all(error_of([] { train_wordpiece({}, {}); }), {"no words in the text"}));
  EXPECT_TRUE(
      names_all(error_of([] {
                  train_wordpiece({{"abc", 1}}, {.vocab_size = 9});
                }),
                {"the requested vocabulary has 9 tokens, but 5 special tokens and the 3 characters",
                 "choose 10 or more"}));
}

TEST(CountWords, CountsBertWords) {
  const TestFolder folder;
  const std::string longest(100, 'x');
  write_file(folder / "a", "The fox, the Fox! " + longest + "\n" + longest + "x");
  write_file(folder / "b", "THE\xff caf\xc3\xa9");
  EXPECT_EQ(count_bert_words({folder / "a", folder / "b"}, kUncased),
            (WordCounts{{"!", 1}, {",", 1}, {"cafe", 1}, {"fox", 2}, {"the", 3}, {longest, 1}}));
  EXPECT_EQ(count_bert_words({folder / "b"}, kCased), (WordCounts{{"THE", 1}, {"café", 1}}));
}

TEST(CountWords, CountsByteLevelWords) {
  const TestFolder folder;
  write_file(folder / "a", "the fox's  \xff fox\nthe " + std::string(2500, 'x'));
  write_file(folder / "b", " fox");
  EXPECT_EQ(count_byte_level_words({folder / "a", folder / "b"}),
            (WordCounts{{"\n", 1},
                        {" ", 1},
                        {" \xff", 1},
                        {" fox", 3},
                        {" " + std::string(999, 'x'), 1},
                        {"'s", 1},
                        {"the", 2},
                        {std::string(1000, 'x'), 1},
                        {std::string(501, 'x'), 1}}));
}

TEST(CountWords, CountsOnlySelectedJsonField) {
  const TestFolder folder;
  write_file(folder / "a.jsonl", "{\"text\": \"the fo\", \"id\": 1}\n\n{\"text\": \"x\\nthe\"}");
  write_file(folder / "b.txt", "fox");
  InputText text(find_input_files({.inputs = {folder / "a.jsonl", folder / "b.txt"}}, "test"));
  const WordCounts words = {{"the", 2}, {"fo", 1}, {"x", 1}, {"fox", 1}};
  EXPECT_EQ(count_bert_words(text, kUncased), words);
  text.field = "id";
  EXPECT_TRUE(names_all(error_of([&] { count_bert_words(text, kUncased); }),
                        {"a.jsonl:1", "\"id\"", "must be a string"}));
  text.skip_malformed = true;
  EXPECT_EQ(count_bert_words(text, kUncased), (WordCounts{{"fox", 1}}));
  EXPECT_TRUE(names_all(
      error_of([&] { find_input_files({.inputs = {folder / "b.txt"}, .field = "text"}, "test"); }),
      {"test: --field", "all inputs are text"}));
}

TEST(CountWords, CountsAreIndependentOfPieceBoundaries) {
  const TestFolder folder;
  std::string text;
  WordCounts expected;
  std::mt19937 random(1);
  while (text.size() < (size_t{5} << 19)) {
    const std::string word = fmt::format("w{}", random() % 1000);
    text += word + (random() % 2 == 0 ? " " : "\xe3\x80\x80");  // an ideographic space
    ++expected[word];
  }
  write_file(folder / "text", text);
  EXPECT_TRUE(count_bert_words({folder / "text"}, kUncased) == expected);
  EXPECT_THROW(count_bert_words({folder / "none"}, kUncased), Error);

  WordCounts words;
  for_each_byte_level_word(text, [&](std::string_view word) { ++words[std::string(word)]; });
  EXPECT_TRUE(count_byte_level_words({folder / "text"}) == words);
}

/// Repeatedly merges the most frequent adjacent pair of all words, counting from scratch each time.
/// Returns the merges.
Tokens train_textbook_bpe(const WordCounts& counts, size_t merges, int64_t min_count) {
  Tokens tokens = small_bpe({}, {}).tokens;
  std::vector<std::pair<Tokens, int64_t>> words;
  for (const auto& [word, count] : counts) {
    words.push_back({{}, count});
    for (const char c : word) words.back().first.push_back(to_alphabet({&c, 1}));
  }
  const auto id = [&](const std::string& token) {
    return std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
  };
  Tokens made;
  while (made.size() < merges) {
    std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
    for (const auto& [parts, count] : words) {
      for (size_t i = 1; i < parts.size(); ++i) pairs[{id(parts[i - 1]), id(parts[i])}] += count;
    }
    const auto best =
        std::max_element(pairs.begin(), pairs.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < min_count) break;
    const std::string left = tokens[static_cast<size_t>(best->first.first)];
    const std::string right = tokens[static_cast<size_t>(best->first.second)];
    made.push_back(left + " " + right);
    if (id(left + right) == static_cast<int64_t>(tokens.size())) tokens.push_back(left + right);
    for (auto& [parts, count] : words) {
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        if (parts[i] != left || parts[i + 1] != right) continue;
        parts[i] = left + right;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return made;
}

TEST(BpeTraining, MatchesTextbook) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    WordCounts words;
    for (int i = 0; i < 40; ++i) {
      std::string word(random() % 2, ' ');
      const size_t length = 1 + random() % 10;
      for (size_t j = 0; j < length; ++j) word += "aab\xe9"[random() % 4];
      words[word] += static_cast<int64_t>(1 + random() % 5);
    }
    const BpeDescription all = train_bpe(words, {.vocab_size = 400});
    EXPECT_EQ(all.merges, train_textbook_bpe(words, all.merges.size(), 2));
    const BpeDescription some = train_bpe(words, {.vocab_size = 270, .special = {}});
    EXPECT_EQ(some.tokens.size(), 270u);
    EXPECT_EQ(some.merges, train_textbook_bpe(words, some.merges.size(), 2));
  }
}

TEST(BpeTraining, PutsSpecialTokensLast) {
  const WordCounts words = {{"ab", 3}, {" ab", 2}};
  const BpeDescription bpe =
      train_bpe(words, {.vocab_size = 300, .special = {"[MASK]", "<|endoftext|>"}});
  EXPECT_EQ(Tokens(bpe.tokens.begin() + 256, bpe.tokens.end()),
            (Tokens{"ab", "Ġab", "[MASK]", "<|endoftext|>"}));
  EXPECT_EQ(bpe.merges, (Tokens{"a b", "Ġ ab"}));
  EXPECT_EQ(bpe.special, (std::vector<int32_t>{258, 259}));
  EXPECT_EQ(train_bpe(words, {.vocab_size = 300, .min_count = 3}).merges, (Tokens{"a b"}));
  EXPECT_EQ(train_bpe(words, {.vocab_size = 257}).merges, Tokens{});
}

TEST(BpeTraining, RejectsInvalidRequests) {
  const WordCounts words = {{"ab", 3}};
  const auto message = [&](int64_t vocab_size, const Tokens& special) {
    return error_of([&] { train_bpe(words, {.vocab_size = vocab_size, .special = special}); });
  };
  EXPECT_TRUE(names_all(error_of([] { train_bpe({}, {}); }), {"there is no text"}));
  EXPECT_TRUE(names_all(
      message(256, {"<s>"}),
      {"the requested vocabulary has 256 tokens, but the 256 bytes and 1 special", "choose 257"}));
  EXPECT_TRUE(names_all(message(300, {"PAD"}), {"\"PAD\" must look like <...> or [...]"}));
  EXPECT_TRUE(names_all(message(300, {"<s>", "<s>"}), {"both \"<s>\""}));
  EXPECT_TRUE(names_all(message(300, {""}), {"\"\" must look like <...>"}));
  EXPECT_TRUE(names_all(message(300, {"<a>,<b>"}), {"is a list: give each token its own"}));
  EXPECT_TRUE(names_all(message(300, {"\xff"}), {"not valid UTF-8"}));
}

}  // namespace
}  // namespace tessera
