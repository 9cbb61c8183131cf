#include <chrono>
#include <random>

#include "launch/tokenizers/text/byte_level_words.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "tests/launch/tokenizers/bpe_fixture.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;
using Texts = std::vector<std::string>;

const Texts kMerges = {"Ġ t", "h e", "Ġt he", "a a", "aa aa", "i n", "in g", "ç ĭ", "Ġ Ġ", "aa a"};

/// The text of each token of a text.
Texts pieces(const Tokenizer& tokenizer, std::string_view text) {
  Texts pieces;
  for (const int32_t token : tokenizer.encode(text))
    pieces.push_back(tokenizer.decode({&token, 1}));
  return pieces;
}

/// The definition: repeatedly merge the first pair with the highest priority.
Tokens textbook_merge(const BpeVocabulary& vocabulary, std::string_view word) {
  Tokens tokens;
  for (const char byte : word) tokens.push_back(vocabulary.byte_token(byte));
  for (bool joined = true; joined;) {
    joined = false;
    for (const BpeMerge& merge : vocabulary.merges()) {
      for (size_t i = 0; i + 1 < tokens.size() && !joined; ++i) {
        if (tokens[i] != merge.left || tokens[i + 1] != merge.right) continue;
        tokens[i] = merge.joined;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        joined = true;
      }
      if (joined) break;
    }
  }
  return tokens;
}

/// Random merges of the bytes "abc " and their results.
Texts random_merges(std::mt19937& random, size_t count) {
  Texts parts = {"a", "b", "c", "Ġ"}, merges;
  while (merges.size() < count) {
    const std::string left = parts[random() % parts.size()], right = parts[random() % parts.size()];
    const std::string merge = left + " " + right;
    if (left.size() + right.size() > 12 ||
        std::find(merges.begin(), merges.end(), merge) != merges.end()) {
      continue;
    }
    merges.push_back(merge);
    parts.push_back(left + right);
  }
  std::shuffle(merges.begin(), merges.end(), random);
  return merges;
}

std::string random_bytes(std::mt19937& random, size_t size) {
  const char* const parts[] = {"a",   "a", "s", "'",  " ",      " ",    "\n",   "the", " the",
                               "ing", "7", "!", "狐", "\u3000", "\xe7", "\x8b", "\xff"};
  std::string text;
  while (text.size() < size) text += parts[random() % std::size(parts)];
  return text;
}

TEST(Bpe, MergesHighestPriorityPairFirst) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer(kMerges);
  EXPECT_EQ(pieces(tokenizer, "the thing in the"),
            (Texts{"t", "he", " t", "h", "ing", " ", "in", " the"}));
  EXPECT_EQ(pieces(tokenizer, "aaaaaaa"), (Texts{"aaaa", "aaa"}));
  EXPECT_EQ(pieces(tokenizer, "狐\xff"), (Texts{"\xe7\x8b", "\x90", "\xff"}));
  EXPECT_EQ(tokenizer.encode(""), Tokens{});
  EXPECT_EQ(tokenizer.vocab_size(), 267);
  EXPECT_EQ(tokenizer.count_invalid("\xff"), 0);
}

TEST(Bpe, MatchesTextbook) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const BpeVocabulary vocabulary(small_bpe(random_merges(random, 30)));
    const BpeMerges merges(vocabulary.merges());
    BpeMerges::Workspace workspace;
    for (const size_t size : {0, 1, 2, 7, 20, 48, 49, 200}) {
      std::string word;
      while (word.size() < size) word += "aabc "[random() % 5];
      Tokens tokens;
      for (const char byte : word) tokens.push_back(vocabulary.byte_token(byte));
      merges.join(tokens, workspace);
      ASSERT_EQ(tokens, textbook_merge(vocabulary, word)) << word;
    }
  }
}

// Merges may fail to produce a word even if it is a token.
TEST(Bpe, NeverUsesTokensUnreachableByMerges) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({"b c", "a b", "ab c"});
  EXPECT_EQ(pieces(tokenizer, "abc"), (Texts{"a", "bc"}));
}

TEST(Bpe, RoundTripsAnyBytes) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer(kMerges);
  std::mt19937 random(1);
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  for (int i = 0; i < 20000; ++i) text.push_back(static_cast<char>(random()));
  text += random_bytes(random, 20000);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Bpe, CutsPreserveTokens) {
  std::mt19937 random(1);
  for (const bool add_prefix_space : {false, true}) {
    BpeDescription bpe = small_bpe(kMerges);
    bpe.add_prefix_space = add_prefix_space;
    const BpeTokenizer tokenizer{BpeVocabulary(bpe)};
    for (int round = 0; round < 3000; ++round) {
      const std::string text = random_bytes(random, 12);
      const Tokens whole = tokenizer.encode(text);
      for (size_t size = 0; size <= text.size(); ++size) {
        const size_t cut = tokenizer.last_cut(std::string_view(text).substr(0, size));
        ASSERT_LE(cut, size);
        if (cut == 0) continue;
        Tokens joined = tokenizer.encode(std::string_view(text).substr(0, cut));
        const Tokens rest = tokenizer.encode(std::string_view(text).substr(cut));
        joined.insert(joined.end(), rest.begin(), rest.end());
        ASSERT_EQ(joined, whole) << text << " cut at " << cut << " of " << size;
      }
    }
  }
}

TEST(Bpe, FindsLastCut) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer(kMerges);
  EXPECT_EQ(tokenizer.last_cut("ab cd"), 2u);
  EXPECT_EQ(tokenizer.last_cut("ab,cd"), 3u);
  EXPECT_EQ(tokenizer.last_cut("ab's"), 4u);
  EXPECT_EQ(tokenizer.last_cut("abcd"), 0u);
  EXPECT_EQ(tokenizer.last_cut(""), 0u);
  EXPECT_EQ(tokenizer.forced_cut("abcd"), 3u);
  EXPECT_EQ(tokenizer.forced_cut("ab\xe7\x8b"), 2u);
  EXPECT_EQ(tokenizer.forced_cut("a"), 1u);
}

TEST(Bpe, EncodesLongRunsInLinearTime) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer(kMerges);
  const auto start = std::chrono::steady_clock::now();
  for (const char* unit : {"a", "=", " ", "\xff", "狐", "the"}) {
    std::string text;
    while (text.size() < size_t{1} << 20) text += unit;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    EXPECT_LT(tokenizer.last_cut(text), text.size());
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 60.0);  // a quadratic algorithm would take hours
}

TEST(Bpe, AddsPrefixSpaceWhenConfigured) {
  BpeDescription bpe = small_bpe(kMerges);
  bpe.add_prefix_space = true;
  const BpeTokenizer tokenizer{BpeVocabulary(bpe)};
  EXPECT_EQ(pieces(tokenizer, "the"), (Texts{" the"}));
  EXPECT_EQ(pieces(tokenizer, " the"), (Texts{" the"}));
  EXPECT_EQ(pieces(tokenizer, "\nthe"), (Texts{" ", "\n", "t", "he"}));
  EXPECT_EQ(tokenizer.encode(""), Tokens{});
}

TEST(Bpe, ParsesSpecialTokensOnlyOnRequest) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({"a b"}, {"<s>", "<|endoftext|>", "狐 x"});
  EXPECT_EQ(tokenizer.end_of_document(), 258);
  EXPECT_EQ(tokenizer.to_json()["special"], (Json{257, 258, 259}));
  EXPECT_EQ(tokenizer.special().start, 257);
  EXPECT_EQ(tokenizer.decode(Tokens{256, 258, 256, 259}), "abab");
  EXPECT_EQ(tokenizer.token_text(259), "狐 x");
  EXPECT_EQ(pieces(tokenizer, "<s>").size(), 3u);
  EXPECT_EQ(tokenizer.encode_with_special("<s>ab<|endoftext|>狐 x狐"),
            (Tokens{257, 256, 258, 259, tokenizer.encode("狐")[0], tokenizer.encode("狐")[1],
                    tokenizer.encode("狐")[2]}));
  EXPECT_EQ(tokenizer.encode_with_special(""), Tokens{});
  EXPECT_EQ(small_bpe_tokenizer({}, {}).end_of_document(), std::nullopt);
}

TEST(Bpe, RecognizesBertAndRobertaNames) {
  const BpeTokenizer roberta =
      small_bpe_tokenizer({}, {"<s>", "<pad>", "</s>", "<unk>", "<mask>", "<mask>s>"});
  EXPECT_EQ(roberta.special().start, 256);
  EXPECT_EQ(roberta.special().padding, 257);
  EXPECT_EQ(roberta.special().end, 258);
  EXPECT_EQ(roberta.special().unknown, 259);
  EXPECT_EQ(roberta.special().mask, 260);
  EXPECT_EQ(roberta.end_of_document(), 258);
  EXPECT_EQ(roberta.encode_with_special("<mask>s><mask>"), (Tokens{261, 260}));
  const BpeTokenizer bert = small_bpe_tokenizer({}, {"<mask>", "[MASK]"});
  EXPECT_EQ(bert.special().mask, 257);
}

TEST(Bpe, SpecialTokenMayAbsorbPrecedingSpace) {
  BpeDescription bpe = small_bpe({"Ġ a"}, {"<mask>"});
  bpe.strip_left = {257};
  const BpeTokenizer tokenizer{BpeVocabulary(bpe)};
  const Tokens expected = {256, 257, tokenizer.encode(".")[0]};
  EXPECT_EQ(tokenizer.encode_with_special(" a \u3000<mask>."), expected);
  EXPECT_EQ(tokenizer.encode_with_special(" a<mask>."), expected);
}

TEST(Bpe, AddedTokenIsNoCharacterOfTheModel) {
  BpeDescription bpe;
  bpe.characters = true;
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.push_back(fmt::format("<0x{:02X}>", byte));
  bpe.tokens.insert(bpe.tokens.end(), {"é", "ä", "ää"});
  bpe.merges = {"ä ä"};
  bpe.added = bpe.single_word = {256, 257};
  const BpeTokenizer tokenizer{BpeVocabulary(bpe)};
  EXPECT_EQ(tokenizer.encode("é xé"), (Tokens{256, ' ', 'x', 0xC3, 0xA9}));
  EXPECT_EQ(tokenizer.encode("ä xä xää"), (Tokens{257, ' ', 'x', 257, ' ', 'x', 258}))
      << "which merges have, so that it is one of the model, too";
}

TEST(Bpe, MarksTokensThatContinueWords) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({"Ġ a", "a b"});
  const std::vector<bool> continues = tokenizer.continues_word();
  EXPECT_FALSE(continues[256]);
  EXPECT_TRUE(continues[257]);
  EXPECT_FALSE(continues[258]);  // <|endoftext|>
  EXPECT_FALSE(continues[static_cast<size_t>(tokenizer.encode("\n")[0])]);
  EXPECT_TRUE(continues[static_cast<size_t>(tokenizer.encode("a")[0])]);
}

TEST(Bpe, PrintsSingleTokens) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({"Ġ a", "ç ĭ", "çĭ Ĳ"});
  EXPECT_EQ(tokenizer.token_text(256), " a");
  EXPECT_EQ(tokenizer.token_text(257), "\\xe7\\x8b");
  EXPECT_EQ(tokenizer.token_text(258), "狐");
  EXPECT_EQ(tokenizer.token_text(tokenizer.encode("\n")[0]), "\\x0a");
  EXPECT_EQ(tokenizer.token_text(259), "<|endoftext|>");
  EXPECT_TRUE(names_all(error_of([&] { tokenizer.token_text(260); }), {"bpe", "260", "0 to 259"}));
  EXPECT_THROW(tokenizer.decode(Tokens{-1}), Error);
}

TEST(Bpe, RoundTripsThroughJson) {
  BpeDescription bpe = small_bpe(kMerges, {"<s>", "<mask>"});
  for (const bool all : {false, true}) {
    bpe.add_prefix_space = all;
    if (all) bpe.strip_left = {267};
    const BpeTokenizer tokenizer{BpeVocabulary(bpe)};
    const auto again = tokenizer_from_json(tokenizer.to_json(), "checkpoint");
    EXPECT_EQ(again->kind(), "bpe");
    EXPECT_EQ(identity_of(*again), identity_of(tokenizer));
    EXPECT_EQ(again->encode_with_special("the <mask>"),
              tokenizer.encode_with_special("the <mask>"));
  }
}

}  // namespace
}  // namespace tessera
