// Compares with the Python package `tokenizers` (tests/parity/make_wordpiece_goldens.py).

#include <map>

#include "launch/tokenizers/text/bert_text.h"
#include "launch/tokenizers/wordpiece/wordpiece_tokenizer.h"
#include "tests/launch/tokenizers/golden_texts.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;

const Json& golden() {
  static const Json json = read_golden("wordpiece_golden.json");
  return json;
}

class WordPieceParity : public ::testing::TestWithParam<bool> {
 protected:
  bool cased() const { return GetParam(); }
  BertCasing casing() const { return cased() ? kCased : kUncased; }
  const Json& expected() const { return golden().at(cased() ? "wordpiece-cased" : "wordpiece"); }
};

TEST_P(WordPieceParity, ProducesSameTokensAndText) {
  const WordPieceTokenizer tokenizer(
      WordPieceVocabulary(expected().at("tokens").get<std::vector<std::string>>(), "golden"),
      casing());
  size_t tokens = 0;
  for (const Json& item : expected().at("cases")) {
    const std::string text = from_hex(item.at("hex").get<std::string>());
    const auto ids = item.at("ids").get<Tokens>();
    EXPECT_EQ(tokenizer.encode(text), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), item.at("shown").get<std::string>()) << text;
    const Tokens with_special = item.value("with_special", ids);
    EXPECT_EQ(tokenizer.encode_with_special(text), with_special) << text;
    tokens += ids.size();
  }
  EXPECT_GT(tokens, 700u);
}

TEST_P(WordPieceParity, SplitsSameWordsForEveryUnicode14Character) {
  std::map<uint32_t, Fnv> hashes;
  const auto block = golden().at("block").get<uint32_t>();
  for (const Json& range : golden().at("characters")) {
    for (auto code = range.at(0).get<uint32_t>(); code < range.at(1).get<uint32_t>(); ++code) {
      std::string text = "a";
      append_utf8(text, code);
      text += 'b';
      std::string line;
      for_each_bert_word(text, casing(), [&](std::string_view word) {
        line.append(line.empty() ? "" : " ").append(word);
      });
      hashes[code / block].add(line + "\n");
    }
  }
  ASSERT_EQ(hashes.size(), expected().at("blocks").size());
  for (const auto& [index, hash] : hashes) {
    EXPECT_EQ(fmt::format("{:016x}", hash.value), expected().at("blocks").at(std::to_string(index)))
        << "block from character " << index * block;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, WordPieceParity, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Cased" : "Uncased"; });

TEST(WordPieceParityBytes, ReplacesAsManyAsPython) {
  const Json& texts = golden().at("not_utf8");
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(count_invalid_utf8(from_hex(texts.at(i).get<std::string>())),
              golden().at("replaced").at(i).get<int64_t>());
  }
}

}  // namespace
}  // namespace tessera
