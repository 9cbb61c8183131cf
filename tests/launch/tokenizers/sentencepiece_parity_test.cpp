// Compares with the Python package `sentencepiece` (tests/parity/make_sentencepiece_goldens.py).

#include "launch/support/text/base64.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/launch/tokenizers/golden_texts.h"

namespace tessera {
namespace {

using Tokens = std::vector<int32_t>;

const Json& golden() {
  static const Json json = read_golden("sentencepiece_golden.json");
  return json;
}

class SentencePieceParity : public ::testing::TestWithParam<const char*> {
 protected:
  SentencePieceTokenizer tokenizer() const {
    return {from_base64(golden().at(GetParam()).at("model").get<std::string>(), "golden"),
            "golden"};
  }
};

TEST_P(SentencePieceParity, ProducesSameTokensAndText) {
  const SentencePieceTokenizer model = tokenizer();
  const Json& texts = golden().at("texts");
  const Json& cases = golden().at(GetParam()).at("cases");
  ASSERT_EQ(cases.size(), texts.size());
  size_t tokens = 0;
  int with_ties = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = from_hex(texts[i].get<std::string>());
    const auto ids = cases[i].at("ids").get<Tokens>();
    // The package's tokens of separate words differ where scores are equal up to rounding.
    EXPECT_EQ(model.encode(text), cases[i].value("by_word", ids)) << text;
    with_ties += cases[i].contains("by_word") ? 1 : 0;
    EXPECT_EQ(model.decode(ids), cases[i].at("shown").get<std::string>()) << text;
    tokens += ids.size();
  }
  EXPECT_GT(tokens, 5000u);
  EXPECT_LE(with_ties, 1);
}

TEST_P(SentencePieceParity, CutsPreserveTokens) {
  const SentencePieceTokenizer model = tokenizer();
  std::string all;
  for (const Json& text : golden().at("texts")) all += from_hex(text.get<std::string>()) + " ";
  size_t cuts = 0;
  for (size_t end = 1; end < all.size(); end += 13) {
    const std::string_view part = std::string_view(all).substr(0, end);
    const size_t cut = model.last_cut(part);
    ASSERT_LE(cut, end);
    if (cut == 0) continue;
    ++cuts;
    const size_t begin = cut - std::min<size_t>(cut, 300);
    const std::string_view near(all.data() + begin, std::min(all.size(), cut + 300) - begin);
    // Text before a cut changes nothing, so a window of the text suffices.
    if (model.last_cut(near.substr(0, cut - begin)) != cut - begin) continue;
    Tokens tokens = model.encode(near.substr(0, cut - begin));
    const Tokens rest = model.encode(near.substr(cut - begin));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokens, model.encode(near)) << near;
  }
  EXPECT_EQ(cuts > 0, std::string(GetParam()) != "spaces");
}

INSTANTIATE_TEST_SUITE_P(, SentencePieceParity, ::testing::Values("unigram", "bpe", "spaces"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace tessera
