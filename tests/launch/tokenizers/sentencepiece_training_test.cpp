#include "launch/tokenizers/training/sentencepiece_training.h"

#include <algorithm>

#include "launch/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::expect_error;

class SentencePieceTraining : public ::testing::Test {
 protected:
  std::string train(const std::string& text, const SentencePieceTrainingOptions& options) {
    write_file(folder_ / "text", text);
    return train_sentencepiece({folder_ / "text"}, options);
  }

  TestFolder folder_;
  const std::string text_ =
      "The fox jumps over the dog and the dog jumps over the fox again.\n"
      "Another fox sleeps; another dog does not sleep before the fox does.\n";
};

TEST_F(SentencePieceTraining, ModelHasAllSpecialTokens) {
  for (const bool bpe : {false, true}) {
    const SentencePieceTokenizer model(train(text_, {.vocab_size = 42, .bpe = bpe}), "trained");
    EXPECT_EQ(model.vocab_size(), 42);
    EXPECT_EQ(model.special().unknown, 0);
    EXPECT_EQ(model.special().padding, 3);
    EXPECT_EQ(model.token_text(*model.special().start), "[CLS]");
    EXPECT_EQ(model.token_text(*model.special().end), "[SEP]");
    EXPECT_EQ(model.token_text(*model.special().mask), "[MASK]");
    EXPECT_EQ(model.end_of_document(), 2);
    EXPECT_EQ(model.decode(model.encode(text_)),
              "The fox jumps over the dog and the dog jumps over the fox again. Another fox "
              "sleeps; another dog does not sleep before the fox does.");
  }
}

TEST_F(SentencePieceTraining, IsDeterministic) {
  const SentencePieceTrainingOptions options = {.vocab_size = 42};
  EXPECT_EQ(train(text_, options), train(text_, options));
}

TEST_F(SentencePieceTraining, UsesLinesOfAnyLength) {
  std::string line;
  for (int i = 0; i < 3000; ++i) line += i % 7 == 0 ? "wonderful " : "day ";
  const std::string model = train(line + std::string(10000, 'x'), {.vocab_size = 36});
  const SentencePieceTokenizer tokenizer(model, "trained");
  const auto tokens = tokenizer.encode("wonderful day");
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), *tokenizer.special().unknown), 0);
}

TEST_F(SentencePieceTraining, CutsLongLinesIndependentlyOfPieces) {
  // Longer than a piece of a file; equivalent to separate lines of 4095 bytes.
  std::string line, lines;
  for (int i = 0; i < 300; ++i) {
    std::string part;
    while (part.size() < 4092) part += (part.size() + static_cast<size_t>(i)) % 3 ? "fox " : "dog ";
    part += "ox";
    line += (i == 0 ? "x" : " ") + part;
    lines += (i == 0 ? "x" : " ") + part + "\n";
  }
  EXPECT_EQ(train(line, {.vocab_size = 14}), train(lines, {.vocab_size = 14}));
}

TEST_F(SentencePieceTraining, RejectsInvalidOptions) {
  expect_error([&] { train(text_, {.vocab_size = 5000}); }, {"5000 tokens", "at most", "or fewer"});
  expect_error([&] { train(text_, {.vocab_size = 5000, .bpe = true}); }, {"5000", "at most"});
  expect_error([&] { train(text_, {.vocab_size = 12}); }, {"12 tokens", "already", "or more"});
  expect_error([&] { train(text_, {.vocab_size = 7}); }, {"7 tokens", "8 to"});
  expect_error([&] { train(text_, {.vocab_size = 42, .character_coverage = 0.5}); },
               {"0.5", "0.98 to 1"});
}

TEST_F(SentencePieceTraining, RejectsInputsWithoutText) {
  for (const std::string text : {"", " \n\n", "\x01\n", "\xE2\x96\x81\n", "\xE2\x96\x85\n"}) {
    expect_error([&] { train(text, {.vocab_size = 42}); }, {"no word"});
  }
  expect_error([] { train_sentencepiece({"/no/such/file"}, {}); }, {"/no/such/file"});
}

}  // namespace
}  // namespace tessera
