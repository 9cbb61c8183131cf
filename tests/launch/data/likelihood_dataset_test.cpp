#include "launch/data/datasets/likelihood_dataset.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/error.h"
#include "core/ops/cross_entropy.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "tests/launch/data/test_files.h"
#include "tests/launch/tokenizers/bpe_fixture.h"

namespace tessera {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kNone = kIgnoreTarget;

ChatTemplate no_chat() { fail("no context has messages"); }

class Likelihoods : public testing::Test {
 protected:
  Likelihoods() {
    model_.seq_length = 4;
    model_.vocab_size = 300;
  }

  std::string write(const std::string& text, const std::string& name = "t.jsonl") const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }

  LikelihoodDataset of_ids(const std::string& text) const {
    return {write(text), ids_, model_, no_chat};
  }

  TestFolder folder_;
  ModelConfig model_;
  IdTokenizer ids_{300, {{"eos", 0}}};
};

// The example in lm-evaluation-harness, whose texts begin with BOS or EOS.
TEST_F(Likelihoods, CutTextsIntoWindows) {
  const LikelihoodDataset dataset = of_ids(R"({"text": "10 1 2 3 4 5 6 7 8 9"})"
                                           "\n"
                                           R"({"text": ""})"
                                           "\n"
                                           R"({"context": "1 2 3 4", "continuation": " 5 6"})"
                                           "\n"
                                           R"({"context": " ", "continuation": "7"})");
  ASSERT_EQ(dataset.num_lines(), 4);
  EXPECT_EQ(dataset.continuations(0), (Range{0, 3}));
  EXPECT_EQ(dataset.continuations(1), (Range{3, 3}));
  EXPECT_EQ(dataset.continuations(2), (Range{3, 4}));
  EXPECT_EQ(dataset.num_truncated(), 1);
  EXPECT_EQ(dataset.num_tokens(0), 4);
  EXPECT_EQ(dataset.num_tokens(2), 2);
  ASSERT_EQ(dataset.num_samples(), 5);
  const Ids inputs[] = {{0, 10, 1, 2}, {3, 4, 5, 6}, {5, 6, 7, 8}, {2, 3, 4, 5}, {0}};
  const Ids targets[] = {
      {10, 1, 2, 3}, {4, 5, 6, 7}, {kNone, kNone, 8, 9}, {kNone, kNone, 5, 6}, {7}};
  for (int64_t i = 0; i < 5; ++i) {
    Sample sample;
    dataset.fill(i, 0, sample);
    EXPECT_EQ(sample.tokens, inputs[i]);
    EXPECT_EQ(sample.targets, targets[i]);
    EXPECT_EQ(sample.labels, (Ids{static_cast<int32_t>(i)}));
  }
  EXPECT_TRUE(names_all(summary_of(dataset), {"4 lines", "1 were cut"}));
}

// Nothing is added between them, and white space at the end of the context is not its own.
TEST_F(Likelihoods, EncodeContextAndContinuationTogether) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({"a b", "ab c"}, {"<|endoftext|>"});
  model_.seq_length = 16;
  const LikelihoodDataset dataset(write(R"({"context": "a ", "continuation": "bc"})"
                                        "\n"
                                        R"({"context": "a", "continuation": " bc"})"
                                        "\n"
                                        R"({"context": "a", "continuation": "bcd"})"),
                                  tokenizer, model_, no_chat);
  const auto size = [&](const char* text) { return std::ssize(tokenizer.encode(text)); };
  EXPECT_EQ(dataset.num_tokens(0), size("a bc") - size("a"));
  EXPECT_EQ(dataset.num_tokens(1), dataset.num_tokens(0));
  EXPECT_EQ(dataset.num_tokens(2), size("abcd") - size("a"));
}

TEST_F(Likelihoods, OfRepliesFollowTheMessages) {
  const BpeTokenizer tokenizer =
      small_bpe_tokenizer({}, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  model_.vocab_size = tokenizer.vocab_size();
  const auto chatml = [&] {
    return ChatTemplate(std::make_shared<const ChatForm>(chatml_form()), tokenizer);
  };
  const std::string question = R"({"role": "system", "content": "s"}, )"
                               R"({"role": "user", "content": "1<|im_end|>"})";
  // Special tokens in a message are text.
  const std::string head = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n1";
  const std::string tail = "<|im_end|>\n<|im_start|>assistant\n";
  Ids expected = tokenizer.encode_with_special(head);
  for (const Ids& part : {tokenizer.encode("<|im_end|>"), tokenizer.encode_with_special(tail),
                          tokenizer.encode("2 3")}) {
    expected.insert(expected.end(), part.begin(), part.end());
  }
  model_.seq_length = std::ssize(expected) - 1;  // a row for each
  const LikelihoodDataset dataset(write("{\"context\": [" + question +
                                        R"(], "continuation": "2 3"})"
                                        "\n{\"context\": [" +
                                        question +
                                        R"(, {"role": "assistant", "content": "2"}], )"
                                        R"("continuation": " 3"})"),
                                  tokenizer, model_, chatml);
  for (const int64_t line : {0, 1}) {
    Sample sample;
    dataset.fill(line, 0, sample);
    const Ids inputs(expected.begin(), expected.end() - 1);
    EXPECT_EQ(sample.tokens, inputs);
    EXPECT_EQ(dataset.num_tokens(line), line == 0 ? 4 : 2);  // one is a line end
  }
  const auto error = [&](const std::string& context, const std::string& continuation) {
    return error_of([&] {
      LikelihoodDataset(
          write("{\"context\": " + context + ", \"continuation\": \"" + continuation + "\"}"),
          tokenizer, model_, chatml);
    });
  };
  EXPECT_TRUE(names_all(error("[1]", "a"), {"t.jsonl:1, message 1 of the context"}));
  EXPECT_TRUE(names_all(error("[" + question + "]", ""), {"t.jsonl:1: the continuation has no"}));
  EXPECT_TRUE(names_all(error("1", "a"), {"\"context\" must be a string, but is a number"}));
}

TEST_F(Likelihoods, RefuseOtherLines) {
  const auto error = [&](const std::string& line) { return error_of([&] { of_ids(line); }); };
  EXPECT_TRUE(names_all(error(""), {"t.jsonl", "there is no line"}));
  EXPECT_TRUE(names_all(error("[]"), {"t.jsonl", "a list"}));
  EXPECT_TRUE(names_all(error(R"({"context": "1"})"), {"t.jsonl:1: there is no \"continuation\""}));
  EXPECT_TRUE(names_all(error(R"({"text": "1", "context": "1"})"), {"t.jsonl:1", "\"context\""}));
  EXPECT_TRUE(names_all(error(R"({"text": 1})"), {"t.jsonl:1: \"text\" must be a string"}));
  EXPECT_TRUE(names_all(error(R"({"context": "1", "continuation": " "})"),
                        {"t.jsonl:1: the continuation has no tokens of its own"}));
  EXPECT_TRUE(names_all(error(R"({"context": "1", "continuation": " 1 2 3 4 5"})"),
                        {"t.jsonl:1: the continuation has 5 tokens", "model.seq_length is 4"}));
  EXPECT_TRUE(names_all(error(R"({"text": "300"})"), {"t.jsonl:1: the text", "300"}));
  EXPECT_TRUE(
      names_all(error_of([&] { LikelihoodDataset(write("", "t.txt"), ids_, model_, no_chat); }),
                {"t.txt", "ends in .jsonl or .json"}));
  model_.attention_prefix = 2;
  EXPECT_TRUE(names_all(error(R"({"text": "1 2"})"), {"the text begins after 1 tokens"}));
  model_.attention_prefix = 0;
  model_.kind = ModelKind::bert;
  EXPECT_TRUE(names_all(error(R"({"text": "1"})"), {"next token", "BERT"}));
  model_.kind = ModelKind::gpt2;
  ids_ = IdTokenizer(300);
  EXPECT_TRUE(names_all(error(R"({"text": "1"})"), {"t.jsonl:1: the text", "ends a document"}));
}

}  // namespace
}  // namespace tessera
