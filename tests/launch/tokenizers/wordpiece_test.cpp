#include <random>

#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/text/vocabulary_file.h"
#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"
#include "tests/launch/data/test_files.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;

WordPieceTokenizer tokenizer_with(const std::vector<std::string>& more, bool cased = false) {
  std::vector<std::string> tokens(std::begin(kBertSpecial), std::end(kBertSpecial));  // 0 to 4
  tokens.insert(tokens.end(), more.begin(), more.end());                              // from 5
  return {WordPieceVocabulary(tokens, "vocab"), cased ? kCased : kUncased};
}

WordPieceTokenizer small_tokenizer() {
  return tokenizer_with({"un", "##aff", "##able", "fox", "##es", ".", "'", "s", "f", "[", "]"});
}

std::string message_of_vocabulary(const std::string& bytes) {
  const TestFolder folder;
  write_file(folder / "vocab.txt", bytes);
  return error_of([&] { WordPieceVocabulary::read(folder / "vocab.txt"); });
}

TEST(WordPiece, MatchesLongestPieceFromLeft) {
  const WordPieceTokenizer tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.encode("unaffable foxes."), (Tokens{5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(tokenizer.encode("unaffably Fo foxé\tFOX"), (Tokens{1, 1, 1, 8}));
  EXPECT_EQ(tokenizer.encode(""), Tokens{});
}

TEST(WordPiece, ParsesSpecialTokensOnlyOnRequest) {
  const WordPieceTokenizer tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.encode("[MASK]"), (Tokens{14, 1, 15}));
  EXPECT_EQ(tokenizer.encode_with_special("fox [MASK][SEP]es [mask] x[CLS"),
            (Tokens{8, 4, 3, 1, 14, 1, 15, 1, 14, 1}));
  EXPECT_EQ(tokenizer.encode_with_special("[PAD]"), Tokens{0});
}

TEST(WordPiece, DecodesToNaturalText) {
  const WordPieceTokenizer tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.decode(Tokens{2, 8, 11, 12, 5, 6, 7, 10, 3, 0, 0}), "fox's unaffable.");
  EXPECT_EQ(tokenizer.decode(Tokens{8, 4, 9, 1}), "fox [MASK]es [UNK]");
  EXPECT_EQ(tokenizer.decode(Tokens{9, 8}), "##es fox");
  EXPECT_EQ(tokenizer.decode(Tokens{}), "");
  EXPECT_EQ(tokenizer.token_text(9), "##es");
  EXPECT_EQ(tokenizer.token_text(4), "[MASK]");
  EXPECT_TRUE(names_all(error_of([&] { tokenizer.decode(Tokens{16}); }),
                        {"wordpiece", "token 16", "0 to 15"}));
  EXPECT_THROW(tokenizer.token_text(-1), Error);
}

TEST(WordPiece, ReportsVocabularyTraits) {
  const VocabularyTraits traits = small_tokenizer().traits();
  EXPECT_EQ(traits.vocab_size, 16);
  EXPECT_EQ(traits.special.padding, 0);
  EXPECT_EQ(traits.special.unknown, 1);
  EXPECT_EQ(traits.special.start, 2);
  EXPECT_EQ(traits.special.end, 3);
  EXPECT_EQ(traits.special.mask, 4);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(traits.continues_word[i], i == 6 || i == 7 || i == 9);
  EXPECT_FALSE(small_tokenizer().end_of_document().has_value());
  const WordPieceTokenizer bare(WordPieceVocabulary({"[UNK]", "a"}, "vocab"), kUncased);
  EXPECT_FALSE(bare.special().mask.has_value());
  EXPECT_EQ(bare.encode_with_special("[MASK]"), (Tokens{0, 0, 0}));
}

TEST(WordPiece, RoundTripsThroughJson) {
  const TestFolder folder;
  const WordPieceTokenizer tokenizer = tokenizer_with({"É", "e"}, true);
  const Json json = parse_json(to_text(tokenizer.to_json()), "json");
  const auto again = tokenizer_from_json(json, "json");
  EXPECT_EQ(again->kind(), "wordpiece-cased");
  EXPECT_EQ(again->to_json(), tokenizer.to_json());
  EXPECT_EQ(again->encode("É e"), (Tokens{5, 6}));
  EXPECT_EQ(tokenizer_from_json(Json{{"kind", "byte"}}, "json")->kind(), "byte");
}

TEST(WordPiece, RejectsHostileJson) {
  const auto message = [](const char* text) {
    return error_of([&] { tokenizer_from_json(parse_json(text, "t.json"), "t.json"); });
  };
  EXPECT_TRUE(names_all(message("[]"), {"t.json must be an object"}));
  EXPECT_TRUE(names_all(message("{}"), {"t.json has no \"kind\""}));
  EXPECT_TRUE(names_all(message(R"({"kind":"words"})"), {"t.json", "\"words\"", "one of: byte"}));
  EXPECT_TRUE(names_all(message(R"({"kind":"wordpiece"})"), {"t.json has no \"tokens\""}));
  EXPECT_TRUE(names_all(message(R"({"kind":"wordpiece","tokens":["[UNK]",7]})"),
                        {"item 1 of \"tokens\" must be a string"}));
  EXPECT_TRUE(names_all(message(R"({"kind":"wordpiece","tokens":["a"]})"), {"no [UNK]"}));
}

TEST(WordPieceVocabulary, ReadsOneTokenPerLine) {
  const TestFolder folder;
  for (const char* text : {"[UNK]\na\n##b\n", "[UNK]\na\n##b", "[UNK]\r\na\r\n##b\r\n"}) {
    write_file(folder / "vocab.txt", text);
    const auto vocabulary = WordPieceVocabulary::read(folder / "vocab.txt");
    EXPECT_EQ(vocabulary.tokens(), (std::vector<std::string>{"[UNK]", "a", "##b"}));
    EXPECT_EQ(vocabulary_text(vocabulary.tokens()), "[UNK]\na\n##b\n");
  }
}

TEST(WordPieceVocabulary, RejectsHostileFilesByLine) {
  EXPECT_TRUE(names_all(message_of_vocabulary("[UNK]\na\nb\na\n"),
                        {"vocab.txt: line 2 and line 4 are both \"a\""}));
  EXPECT_TRUE(names_all(message_of_vocabulary("[UNK]\n\na\n"), {"vocab.txt: line 2 is empty"}));
  EXPECT_TRUE(names_all(message_of_vocabulary("[UNK]\na\n\n"), {"vocab.txt: line 3 is empty"}));
  EXPECT_TRUE(names_all(message_of_vocabulary(""), {"has 0 tokens, but no [UNK]"}));
  EXPECT_TRUE(names_all(message_of_vocabulary("a\nb\n"), {"has 2 tokens, but no [UNK]"}));
  EXPECT_TRUE(names_all(message_of_vocabulary("[UNK]\ncaf\xe9\n"), {"line 2 is not valid UTF-8"}));
  EXPECT_TRUE(names_all(message_of_vocabulary("[UNK]\n" + std::string(1001, 'a')),
                        {"line 2 has 1001 bytes"}));
  EXPECT_TRUE(names_all(message_of_vocabulary(std::string(kMaxVocabularyItems + 1, '\n')),
                        {"vocab.txt: has 2097153 lines", "at most 2097152"}));
  const TestFolder folder;
  EXPECT_TRUE(names_all(error_of([&] { WordPieceVocabulary::read(folder.path().string()); }),
                        {folder.path().string()}));
  write_file(folder / "large", "");
  std::filesystem::resize_file(folder / "large", kMaxVocabularyBytes + 1);
  EXPECT_TRUE(names_all(error_of([&] { WordPieceVocabulary::read(folder / "large"); }),
                        {"has 67108865 bytes, but a vocabulary has at most 67108864"}));
}

TEST(WordPieceVocabulary, NamesJsonTokensByNumber) {
  const auto message = [](const Json& tokens) {
    return error_of([&] {
      tokenizer_from_json({{"kind", "wordpiece"}, {"tokens", tokens}}, "t.json");
    });
  };
  EXPECT_TRUE(names_all(message({"[UNK]", "a", "a"}), {"t.json: token 1 and token 2 are both"}));
  EXPECT_TRUE(names_all(message({"[UNK]", ""}), {"t.json: token 1 is empty"}));
}

TEST(WordPiece, CutsPreserveTokens) {
  std::vector<std::string> letters;
  for (const char* letter : {"a", "b", "e", "狐", "の", ".", "。", "=", "̈", "ё", "е"}) {
    letters.emplace_back(letter);
    letters.push_back("##" + std::string(letter));
  }
  const char* const parts[] = {"a",      "b",    "É",      "狐",   "の",     ".", "。",
                               " ",      "\n",   "\u0338", "=",    "\u0308", "ё", "\u200b",
                               "\u2003", "\xe7", "\x8b",   "\xff", "\u037e"};
  std::mt19937 random(1);
  for (const bool cased : {false, true}) {
    const WordPieceTokenizer tokenizer = tokenizer_with(letters, cased);
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (int i = 0; i < 12; ++i) text += parts[random() % std::size(parts)];
      const Tokens whole = tokenizer.encode(text);
      for (size_t size = 0; size <= text.size(); ++size) {
        const size_t cut = tokenizer.last_cut(std::string_view(text).substr(0, size));
        ASSERT_LE(cut, size);
        Tokens joined = tokenizer.encode(std::string_view(text).substr(0, cut));
        const Tokens rest = tokenizer.encode(std::string_view(text).substr(cut));
        joined.insert(joined.end(), rest.begin(), rest.end());
        ASSERT_EQ(joined, whole) << text << " cut at " << cut << " of " << size;
      }
    }
  }
}

TEST(WordPiece, FindsLastCut) {
  const WordPieceTokenizer tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.last_cut("ab cd"), 3u);
  EXPECT_EQ(tokenizer.last_cut("ab,cd"), 3u);
  EXPECT_EQ(tokenizer.last_cut("狐狸x"), 6u);
  EXPECT_EQ(tokenizer.last_cut("狐\xe7\x8b"), 3u);
  EXPECT_EQ(tokenizer.last_cut("abcd"), 0u);
  EXPECT_EQ(tokenizer.last_cut(""), 0u);
  EXPECT_EQ(tokenizer.forced_cut("abcd"), 3u);
  EXPECT_EQ(tokenizer.forced_cut("abé"), 2u);
  EXPECT_EQ(tokenizer.forced_cut("ab\xe7\x8b"), 2u);
}

TEST(BertText, CountsInvalidUtf8AsUnicodeRecommends) {
  EXPECT_EQ(count_invalid_utf8("plain é 狐 😀"), 0);
  EXPECT_EQ(count_invalid_utf8("caf\xe9 ol\xe9"), 2);
  EXPECT_EQ(count_invalid_utf8("\xf0\x9f\x98"), 1);
  EXPECT_EQ(count_invalid_utf8("\xc0\xaf"), 2);
  EXPECT_EQ(count_invalid_utf8("\xff"), 1);
}

}  // namespace
}  // namespace tessera
