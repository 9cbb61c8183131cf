#include "launch/generation/generated_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "launch/support/text/utf8.h"
#include "launch/tokenizers/byte_tokenizer.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"
#include "tests/launch/tokenizers/bpe_fixture.h"

namespace tessera {
namespace {

using Strings = std::vector<std::string>;
using Tokens = std::vector<int32_t>;

const std::string kMark(kSpaceMark);

/// BPE of characters with bytes for all others, as in Llama 2.
std::unique_ptr<Tokenizer> bpe_of_characters() {
  BpeDescription bpe;
  for (int byte = 0; byte < 256; ++byte) bpe.tokens.push_back(fmt::format("<0x{:02X}>", byte));
  for (const std::string& text : {kMark, std::string("a"), std::string("b")}) {
    bpe.tokens.push_back(text);
  }
  bpe.merges = {kMark + " a", "a b"};
  bpe.tokens.insert(bpe.tokens.end(), {kMark + "a", "ab", "</s>"});
  bpe.characters = bpe.strip_start = true;
  bpe.metaspace = PrefixMark::first;
  bpe.tokens_source = "characters";
  return std::make_unique<BpeTokenizer>(BpeVocabulary(bpe));
}

std::unique_ptr<Tokenizer> sentencepiece_with_bytes() {
  using Type = SentencePieceModel::PieceType;
  SentencePieceModel model;
  model.pieces = {{"<unk>", 0, Type::unknown}, {"<s>", 0, Type::control},
                  {"</s>", 0, Type::control},  {kMark, -3, Type::normal},
                  {"a", -2, Type::normal},     {kMark + "ab", -1, Type::normal}};
  model.byte_fallback = true;
  for (int byte = 0; byte < 256; ++byte) {
    model.pieces.push_back({fmt::format("<0x{:02X}>", byte), -4, Type::byte});
  }
  return std::make_unique<SentencePieceTokenizer>(model.serialized(), "test");
}

std::unique_ptr<Tokenizer> wordpieces() {
  Strings tokens(std::begin(kBertSpecial), std::end(kBertSpecial));
  for (const char* word : {"it", "'", "s", "n", "t", ".", "ve", "re", "##s", "!", "m", "do"}) {
    tokens.emplace_back(word);
  }
  return std::make_unique<WordPieceTokenizer>(WordPieceVocabulary(tokens, "vocab"), kUncased);
}

std::vector<std::unique_ptr<Tokenizer>> all_tokenizers() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(std::make_unique<ByteTokenizer>());
  all.push_back(std::make_unique<BpeTokenizer>(BpeVocabulary(small_bpe({"a b", "ab c"}))));
  all.push_back(std::make_unique<IdTokenizer>(12, SpecialTokenIds{{"eos", 3}, {"pad", 4}}));
  all.push_back(bpe_of_characters());
  all.push_back(sentencepiece_with_bytes());
  all.push_back(wordpieces());
  return all;
}

/// Tokens of which many are parts of characters.
class TokenSource {
 public:
  explicit TokenSource(const Tokenizer& tokenizer) : size_(tokenizer.vocab_size()) {
    const std::string text = "a\u00e9\u20ac\U0001F600b";
    for (int64_t token = 0; token < size_; ++token) {
      const std::string shown = tokenizer.token_text(static_cast<int32_t>(token));
      for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_byte = shown == fmt::format("<0x{:02X}>", byte) ||
                             shown == fmt::format("\\x{:02x}", byte) || shown == std::string(1, c);
        if (is_byte) parts_.push_back(static_cast<int32_t>(token));
      }
    }
  }

  Tokens draw(size_t most) {
    Tokens tokens(random_() % (most + 1));
    for (int32_t& token : tokens) {
      const bool any = parts_.empty() || random_() % 4 == 0;
      token = any ? static_cast<int32_t>(random_() % static_cast<uint64_t>(size_))
                  : parts_[random_() % parts_.size()];
    }
    return tokens;
  }

 private:
  int64_t size_;
  Tokens parts_;
  std::mt19937_64 random_{7};
};

TEST(GeneratedText, SettledBytesStay) {
  for (const auto& tokenizer : all_tokenizers()) {
    SCOPED_TRACE(tokenizer->kind());
    TokenSource source(*tokenizer);
    size_t settled_at_last = 0;
    for (int i = 0; i < 400; ++i) {
      const Tokens tokens = source.draw(14);
      const std::string whole = tokenizer->decode(tokens);
      for (size_t n = 0; n <= tokens.size(); ++n) {
        const auto first = std::span(tokens).first(n);
        const size_t settled = tokenizer->settled_bytes(first);
        const std::string text = tokenizer->decode(first);
        ASSERT_LE(settled, text.size());
        ASSERT_EQ(text.substr(0, settled), whole.substr(0, settled)) << whole;
        settled_at_last = std::max(settled_at_last, settled);
      }
    }
    EXPECT_GT(settled_at_last, 5u);
  }
}

TEST(GeneratedText, AShorterTextKeepsWhatWasSettled) {
  const auto tokenizer = wordpieces();
  // "n ' t" is decoded as "n't", which is two bytes shorter than "n '".
  const Tokens tokens = tokenizer->encode("it do it do it do it do it do it do n ' t do");
  const StopStrings stops({"zzz"});
  GeneratedText text(*tokenizer, stops, {});
  std::string shown;
  for (const int32_t token : tokens) {
    EXPECT_FALSE(text.add(token));
    shown += text.take();
  }
  EXPECT_EQ(shown + text.finish(), tokenizer->decode(tokens));
  EXPECT_THAT(tokenizer->decode(tokens), testing::HasSubstr("don't do"));
}

TEST(GeneratedText, AReplyBeginsAsWithoutItsPrompt) {
  const auto tokenizer = bpe_of_characters();
  const StopStrings stops;
  const Tokens prompt = tokenizer->encode("ab"), reply = tokenizer->encode("a");
  GeneratedText after(*tokenizer, stops, prompt),
      alone(*tokenizer, stops, prompt, TextStart::alone);
  for (const int32_t token : reply) {
    after.add(token);
    alone.add(token);
  }
  EXPECT_EQ(after.finish(), " a");
  EXPECT_EQ(alone.finish(), "a");
}

TEST(GeneratedText, PartsAreTheTextBeforeTheStop) {
  const Strings sets[] = {{}, {"a"}, {"ab", "\u00e9"}, {" "}, {"\xa9"}, {"'s", "n't"}, {"1 2"}};
  for (const auto& tokenizer : all_tokenizers()) {
    SCOPED_TRACE(tokenizer->kind());
    TokenSource source(*tokenizer);
    size_t num_early = 0, num_stopped = 0;
    for (int i = 0; i < 300; ++i) {
      const Strings& set = sets[static_cast<size_t>(i) % std::size(sets)];
      const StopStrings stops(set);
      const Tokens prompt = source.draw(4), more = source.draw(12);
      GeneratedText watched(*tokenizer, stops, prompt), unwatched(*tokenizer, stops, prompt);
      std::string shown;
      size_t num_incomplete = 0;
      bool stopped = false;
      for (const int32_t token : more) {
        stopped = watched.add(token);
        ASSERT_EQ(unwatched.add(token), stopped);
        if (stopped) break;
        const std::string part = watched.take();
        num_incomplete += incomplete_utf8(part);
        shown += part;
        num_early += part.size();
      }
      const std::string whole = unwatched.finish();
      ASSERT_EQ(shown + watched.finish(), whole);
      ASSERT_TRUE(num_incomplete == 0 || valid_utf8(whole) != whole) << whole;
      num_stopped += stopped ? 1 : 0;

      const std::string before = tokenizer->decode(prompt);
      const std::string all = tokenizer->decode(watched.tokens());
      if (!all.starts_with(before)) continue;
      const std::string text = all.substr(before.size());
      ASSERT_EQ(whole, stops.cut(text)) << text;
      ASSERT_EQ(stopped, stops.occur_in(text)) << text;
    }
    EXPECT_GT(num_early, 100u) << "bytes shown before the end";
    EXPECT_GT(num_stopped, 10u);
  }
}

TEST(GeneratedText, TakesWholeCharactersThatBeginNoStop) {
  const ByteTokenizer tokenizer;
  const StopStrings stops({"\u00e9nd", "--"});
  GeneratedText text(tokenizer, stops, Tokens{'x'});
  const std::pair<std::string, std::string> steps[] = {
      {"a", "a"},       {"\xc3", ""},     {"\xa8", "\u00e8"},
      {"\xc3\xa9", ""}, {"n", ""},        {"-", "\u00e9n"},
      {"!", "-!"},      {"\xf0\x9f", ""}, {"\x98\x80", "\U0001F600"},
      {"\x80", "\x80"}};
  for (const auto& [bytes, part] : steps) {
    for (const char byte : bytes) {
      EXPECT_FALSE(text.add(static_cast<unsigned char>(byte)));
    }
    EXPECT_EQ(text.take(), part) << bytes;
  }
  EXPECT_FALSE(text.add('-'));
  EXPECT_TRUE(text.add('-'));
  EXPECT_EQ(text.take(), "");
  EXPECT_EQ(text.finish(), "");
  EXPECT_EQ(text.new_tokens().size(), text.tokens().size() - 1);

  // What is incomplete at the end belongs to the text.
  GeneratedText cut(tokenizer, stops, {});
  for (const int32_t byte : {0x61, 0x2d, 0xe2, 0x82}) cut.add(byte);
  EXPECT_EQ(cut.take(), "a-");
  EXPECT_EQ(cut.finish(), "\xe2\x82");
}

}  // namespace
}  // namespace tessera
