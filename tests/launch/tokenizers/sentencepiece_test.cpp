#include <random>

#include "launch/support/text/base64.h"
#include "launch/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "launch/tokenizers/training/sentencepiece_training.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::expect_error;
using Model = SentencePieceModel;
using Type = Model::PieceType;
using Tokens = std::vector<int32_t>;

constexpr const char* kText =
    "The fox jumps over the dog. The dog sleeps, the fox doesn't.\n"
    "Ein Fuchs springt über den Hund; der Hund schläft weiter.\n\n"
    "A fox and a dog and another fox and another dog jump and sleep.\n";

/// The model that the trainer makes of kText, with its normalization rules.
const std::string& trained_model(bool bpe) {
  static const std::string models[] = {
      [] {
        TestFolder folder;
        write_file(folder / "text", kText);
        return train_sentencepiece({folder / "text"}, {.vocab_size = 50});
      }(),
      [] {
        TestFolder folder;
        write_file(folder / "text", kText);
        return train_sentencepiece({folder / "text"}, {.vocab_size = 70, .bpe = true});
      }()};
  return models[bpe ? 1 : 0];
}

/// A handmade model of "ab": <unk> <s> </s> ▁ a b ▁ab.
Model small_model() {
  Model model;
  model.pieces = {{"<unk>", 0, Type::unknown},
                  {"<s>", 0, Type::control},
                  {"</s>", 0, Type::control},
                  {std::string(kSpaceMark), -3, Type::normal},
                  {"a", -2, Type::normal},
                  {"b", -2, Type::normal},
                  {std::string(kSpaceMark) + "ab", -1, Type::normal}};
  return model;
}

SentencePieceTokenizer tokenizer_of(const Model& model) { return {model.serialized(), "test"}; }

TEST(SentencePiece, EncodesDecodesAndDescribesTokens) {
  const auto model = tokenizer_of(small_model());
  EXPECT_EQ(model.kind(), "sentencepiece");
  EXPECT_EQ(model.vocab_size(), 7);
  EXPECT_EQ(model.encode(""), Tokens());
  EXPECT_EQ(model.encode("  "), Tokens());
  EXPECT_EQ(model.encode("ab ba"), (Tokens{6, 3, 5, 4}));
  EXPECT_EQ(model.encode("  ab   xyzab"), (Tokens{6, 3, 0, 4, 5}));
  EXPECT_EQ(model.decode(Tokens{1, 6, 3, 5, 4, 2}), "ab ba");
  EXPECT_EQ(model.decode(Tokens{6, 0}), "ab \xE2\x81\x87 ");
  EXPECT_FALSE(model.decodes_piecewise());
  EXPECT_EQ(model.token_text(6),
            "\xE2\x96\x81"
            "ab");
  EXPECT_EQ(model.continues_word(),
            (std::vector<bool>{false, false, false, false, true, true, false}));
  EXPECT_EQ(model.end_of_document(), 2);
  expect_error([&] { model.decode(Tokens{7}); }, {"sentencepiece", "token 7", "0 to 6"});
  expect_error([&] { model.token_text(-1); }, {"token -1"});
}

TEST(SentencePiece, FindsSpecialTokensByName) {
  Model small = small_model();
  const auto of_small = tokenizer_of(small).special();
  EXPECT_EQ(of_small.unknown, 0);
  EXPECT_EQ(of_small.start, 1);
  EXPECT_EQ(of_small.end, 2);
  EXPECT_EQ(of_small.padding, std::nullopt);
  EXPECT_EQ(of_small.mask, std::nullopt);
  small.pieces.push_back({"<mask>", 0, Type::user_defined});
  small.pieces.push_back({"[CLS]", 0, Type::control});
  small.pieces.push_back({"[PAD]", 0, Type::control});
  const auto special = tokenizer_of(small).special();
  EXPECT_EQ(special.start, 8);
  EXPECT_EQ(special.end, 2);
  EXPECT_EQ(special.padding, 9);
  EXPECT_EQ(special.mask, 7);
}

TEST(SentencePiece, ParsesSpecialTokensOnlyOnRequest) {
  Model small = small_model();
  small.pieces.push_back({"[MASK]", 0, Type::control});
  const auto model = tokenizer_of(small);
  EXPECT_EQ(model.encode("ab</s>"), (Tokens{6, 0}));
  EXPECT_EQ(model.encode_with_special("ab</s>"), (Tokens{6, 2}));
  EXPECT_EQ(model.encode_with_special("ab [MASK] ab"), (Tokens{6, 7, 6}));
  EXPECT_EQ(model.encode_with_special("ab [MASK]ab ab"), (Tokens{6, 7, 4, 5, 6}));
  EXPECT_EQ(model.encode_with_special("[MASK][MASK]a"), (Tokens{7, 7, 4}));
  EXPECT_EQ(model.encode_with_special("<s>ab"), (Tokens{1, 4, 5}));
  EXPECT_EQ(model.encode_with_special(""), Tokens());
}

TEST(SentencePiece, TextAfterSpecialTokensHasNoPrefixIfSpacesStay) {
  Model small = small_model();
  small.normalization.remove_extra_whitespaces = false;
  const auto model = tokenizer_of(small);
  EXPECT_EQ(model.encode_with_special("ab<s>ab ab"), (Tokens{6, 1, 4, 5, 6}));
  for (const char* text : {"ab", " ab", "a  ab ", "ab ab"}) {
    Tokens expected = {1};
    for (const int32_t token : model.encode_part(text, {.before = 1})) expected.push_back(token);
    EXPECT_EQ(model.encode_with_special(std::string("<s>") + text), expected) << text;
  }
}

TEST(SentencePiece, CountsAndReplacesInvalidUtf8) {
  const auto model = tokenizer_of(small_model());
  EXPECT_EQ(model.count_invalid("ab\xFF\xE2\x82 ab"), 2);
  EXPECT_EQ(model.encode("ab \xFF\xE2\x82 ab"), model.encode("ab \xEF\xBF\xBD\xEF\xBF\xBD ab"));
  const std::string nul("ab\0ab", 5);
  EXPECT_EQ(model.encode(nul), (Tokens{6, 0, 4, 5}));
}

TEST(SentencePiece, EscapesControlCharacters) {
  Model small = small_model();
  small.pieces.push_back({"\n\n", -1, Type::user_defined});
  EXPECT_EQ(tokenizer_of(small).token_text(7), "\\x0a\\x0a");
}

/// Checks every cut of random texts over `alphabet`: the parts have the tokens of the whole.
void expect_cuts_hold(const SentencePieceTokenizer& model,
                      const std::vector<std::string>& alphabet) {
  std::mt19937 random(7);
  size_t cuts = 0;
  for (int run = 0; run < 300; ++run) {
    std::string text;
    for (int i = 0; i < 14; ++i) text += alphabet[random() % alphabet.size()];
    const Tokens whole = model.encode(text);
    for (size_t end = 0; end <= text.size(); ++end) {
      const size_t cut = model.last_cut(std::string_view(text).substr(0, end));
      ASSERT_LE(cut, end);
      if (cut > 0) ++cuts;
      Tokens parts = model.encode(std::string_view(text).substr(0, cut));
      const Tokens rest = model.encode(std::string_view(text).substr(cut));
      parts.insert(parts.end(), rest.begin(), rest.end());
      ASSERT_EQ(parts, whole) << "cut at " << cut << ": " << text;
    }
  }
  EXPECT_GT(cuts, 2000u);
}

const std::vector<std::string> kAlphabet = {" ",
                                            " ",
                                            "\n",
                                            "\t",
                                            "\r",
                                            "a",
                                            "b",
                                            "ab",
                                            "fox",
                                            "the",
                                            ".",
                                            "\x01",
                                            "\xE2\x96\x81",
                                            "\xC2\xA8",
                                            "\xC2\xA0",
                                            "\xFF",
                                            "\xCC\x88",
                                            "\xE3\x80\x80",
                                            "\xE2\x80\x8B",
                                            "\xEF\xB7\xBA",
                                            std::string(1, '\0')};

/// Text that the rules normalize to spaces or nothing, and a literal ▁.
const std::vector<std::string> kBlanks = {
    " ", " ", "\xE2\x96\x81", "\xC2\xA0", "\xE2\x80\x8B", "\xE3\x80\x80", "\x01", "a"};

TEST(SentencePiece, PartsHaveSameTokensAsWholeText) {
  expect_cuts_hold({trained_model(false), "trained"}, kBlanks);
  expect_cuts_hold(tokenizer_of(small_model()), kAlphabet);
  expect_cuts_hold({trained_model(false), "trained"}, kAlphabet);
  expect_cuts_hold({trained_model(true), "trained"}, kAlphabet);
}

TEST(SentencePiece, PartsMatchLibraryOnWholeText) {
  // With a piece across words, which does not occur in these texts, the tokenizer passes text to
  // the library as a whole.
  for (const bool bpe : {false, true}) {
    const SentencePieceTokenizer in_parts(trained_model(bpe), "trained");
    Model whole = parse_sentencepiece_model(trained_model(bpe), "trained");
    whole.pieces.push_back({"Z" + std::string(kSpaceMark) + "Z", -100, Type::user_defined});
    const SentencePieceTokenizer at_once = tokenizer_of(whole);
    ASSERT_EQ(at_once.last_cut("a b c "), 0u);
    ASSERT_EQ(in_parts.last_cut("a b c"), 4u);
    std::mt19937 random(11);
    for (int run = 0; run < 2000; ++run) {
      const std::vector<std::string>& alphabet = run % 2 == 0 ? kAlphabet : kBlanks;
      std::string text;
      for (int i = 0; i < 12; ++i) text += alphabet[random() % alphabet.size()];
      ASSERT_EQ(in_parts.encode(text), at_once.encode(text)) << text;
    }
  }
}

TEST(SentencePiece, NeverCutsIfModelCouldNotice) {
  const auto cuts = [](auto&& change) {
    Model model = small_model();
    change(model);
    return tokenizer_of(model).last_cut("ab ab ab") > 0;
  };
  EXPECT_TRUE(cuts([](Model&) {}));
  EXPECT_FALSE(cuts([](Model& m) { m.normalization.dummy_prefix = false; }));
  EXPECT_FALSE(cuts([](Model& m) { m.normalization.remove_extra_whitespaces = false; }));
  EXPECT_FALSE(cuts([](Model& m) { m.normalization.escape_whitespaces = false; }));
  EXPECT_FALSE(cuts([](Model& m) { m.whitespace_as_suffix = true; }));
  EXPECT_FALSE(cuts([](Model& m) { m.pieces[3].type = Type::unused; }));
  EXPECT_FALSE(cuts([](Model& m) { m.pieces[6].text = "ab" + std::string(kSpaceMark); }));
  EXPECT_FALSE(cuts([](Model& m) { m.pieces.push_back({"a b", 0, Type::user_defined}); }));
  Model lines = small_model();  // without rules, a line end is not a space
  EXPECT_EQ(tokenizer_of(lines).last_cut("ab\nab ab"), 6u);
  EXPECT_EQ(SentencePieceTokenizer(trained_model(false), "trained").last_cut("ab\nab"), 3u);
}

TEST(SentencePiece, ForcedCutsAreAtCharacterBoundaries) {
  const auto model = tokenizer_of(small_model());
  EXPECT_EQ(model.forced_cut("ab\xE2\x82"), 2u);
  EXPECT_EQ(model.forced_cut("a\xC3\xA9"), 1u);
  EXPECT_EQ(model.forced_cut("a"), 1u);
}

TEST(SentencePiece, RoundTripsThroughJson) {
  for (const bool bpe : {false, true}) {
    const SentencePieceTokenizer model(trained_model(bpe), "trained");
    const auto again = tokenizer_from_json(model.to_json(), "json");
    EXPECT_EQ(identity_of(*again), identity_of(model));
    EXPECT_EQ(again->encode(kText), model.encode(kText));
  }
  TestFolder folder;
  write_file(folder / "a.model", trained_model(false));
  const auto read = make_tokenizer("sentencepiece:" + (folder / "a.model"));
  EXPECT_EQ(read->kind(), "sentencepiece");
  expect_error(
      [] {
        tokenizer_from_json({{"kind", "sentencepiece"}}, "json");
      },
      {"json", "\"model\""});
  expect_error(
      [] {
        tokenizer_from_json({{"kind", "sentencepiece"}, {"model", 1}}, "json");
      },
      {"json", "\"model\"", "string"});
  expect_error(
      [] {
        tokenizer_from_json({{"kind", "sentencepiece"}, {"model", "a"}}, "json");
      },
      {"json", "\"model\"", "base64"});
}

}  // namespace
}  // namespace tessera
