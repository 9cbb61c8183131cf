#include "launch/data/datasets/choice_dataset.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/cross_entropy.h"
#include "launch/metrics/choice_scores.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "models/architecture.h"
#include "tests/launch/data/test_files.h"
#include "tests/launch/tokenizers/bpe_fixture.h"

namespace tessera {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kNone = kIgnoreTarget;

class Choices : public testing::Test {
 protected:
  Choices() {
    model_.seq_length = 8;
    model_.vocab_size = 300;
  }

  std::string write(const std::string& text, const std::string& name = "q.jsonl") const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }

  ChoiceDataset of_ids(const std::string& text) const { return {write(text), ids_, model_}; }

  TestFolder folder_;
  ModelConfig model_;
  IdTokenizer ids_{300, {{"eos", 0}}};
};

TEST_F(Choices, PacksContextsWithEachChoice) {
  const ChoiceDataset dataset =
      of_ids(R"({"question": "1 2 3", "choices": ["4 5", "6"], "answer": 1})"
             "\n"
             R"({"question": " ", "choices": ["7", "8 9", "10"], "answer": 2})");
  EXPECT_EQ(dataset.num_questions(), 2);
  EXPECT_EQ(dataset.num_choices(), 5);
  EXPECT_EQ(dataset.choices(1), (Range{2, 5}));
  EXPECT_EQ(dataset.answer(1), 2);
  EXPECT_EQ(dataset.characters(0), 3);
  EXPECT_EQ(dataset.name(), "q");
  EXPECT_EQ(dataset.num_truncated(), 0);
  // Of 4, 3, 1, 2 and 1 inputs, in rows of 8.
  ASSERT_EQ(dataset.num_samples(), 2);
  Sample sample;
  dataset.fill(0, 0, sample);
  EXPECT_EQ(sample.tokens, (Ids{1, 2, 3, 4, 1, 2, 3, 0}));
  EXPECT_EQ(sample.targets, (Ids{kNone, kNone, 4, 5, kNone, kNone, 6, 7}));
  EXPECT_EQ(sample.document_lengths, (Ids{4, 3, 1}));
  EXPECT_EQ(sample.labels, (Ids{0, 1, 2}));
  dataset.fill(1, 0, sample);
  EXPECT_EQ(sample.tokens, (Ids{0, 8, 0}));
  EXPECT_EQ(sample.targets, (Ids{8, 9, 10}));
  EXPECT_EQ(sample.labels, (Ids{3, 4}));
}

TEST_F(Choices, CutsContextsAtTheirBeginning) {
  const ChoiceDataset dataset =
      of_ids(R"({"question": "1 2 3 4 5 6", "choices": ["7 8 9 10 11 12 13 14", "7 8 9 10"],)"
             R"( "answer": 0})");
  EXPECT_EQ(dataset.num_truncated(), 2);
  Sample sample;
  dataset.fill(0, 0, sample);
  EXPECT_EQ(sample.tokens, (Ids{6, 7, 8, 9, 10, 11, 12, 13}));
  EXPECT_EQ(sample.targets, (Ids{7, 8, 9, 10, 11, 12, 13, 14}));
  dataset.fill(1, 0, sample);
  EXPECT_EQ(sample.tokens, (Ids{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(sample.targets, (Ids{kNone, kNone, kNone, kNone, 7, 8, 9, 10}));
  EXPECT_TRUE(names_all(summary_of(dataset), {"1 questions", "2 choices", "2 were cut"}));
}

// A token may join the end of the context and the beginning of the choice.
TEST_F(Choices, SplitsTokensLikeLmEvaluationHarness) {
  const BpeTokenizer tokenizer = small_bpe_tokenizer({"a b", "ab c"}, {"<|endoftext|>"});
  const auto sample_of = [&](const std::string& context, const std::string& choice) {
    const std::string line = R"({"question": ")" + context + R"(", "choices": [")" + choice +
                             R"(", "zz"], "answer": 0})";
    const ChoiceDataset dataset(write(line), tokenizer, model_);
    Sample sample;
    dataset.fill(0, 0, sample);
    return sample;
  };
  const auto encode = [&](const char* text) { return tokenizer.encode(text); };
  Ids whole = encode("a bc");
  Sample sample = sample_of("a", "bc");
  EXPECT_EQ(Ids(sample.tokens.begin(), sample.tokens.begin() + std::ssize(whole) - 1),
            Ids(whole.begin(), whole.end() - 1));
  // White space at the end of the context belongs to the choice.
  sample = sample_of("a  ", "b");
  whole = encode("a   b");
  for (size_t i = 1; i < whole.size(); ++i) EXPECT_EQ(sample.targets[i - 1], whole[i]);
}

TEST_F(Choices, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(names_all(error_of([&] { of_ids(""); }), {"q.jsonl", "no question"}));
  const auto error = [&](const std::string& context, const std::string& choice) {
    return error_of([&] {
      of_ids(R"({"question": ")" + context + R"(", "choices": ["1", ")" + choice +
             R"("], "answer": 0})");
    });
  };
  EXPECT_TRUE(names_all(error("1", "1 2 3 4 5 6 7 8 9"),
                        {"q.jsonl:1: choice 1", "9 tokens", "model.seq_length is 8"}));
  EXPECT_TRUE(names_all(error("1", " "), {"q.jsonl:1: choice 1", "no tokens of its own"}));
  EXPECT_TRUE(names_all(error("x", "1"), {"q.jsonl:1", "x"}));
  EXPECT_TRUE(names_all(error("1", "x"), {"q.jsonl:1: choice 1", "x"}));
  model_.vocab_size = 5;
  EXPECT_TRUE(names_all(error("1", "7"), {"q.jsonl:1: choice 1", "7", "vocab_size is 5"}));
  model_.vocab_size = 300;
  model_.attention_prefix = 3;
  EXPECT_TRUE(names_all(error("1 2", "3"), {"q.jsonl:1: choice 0", "attention_prefix is 3"}));
  EXPECT_NO_THROW(of_ids(R"({"question": "1 2 3", "choices": ["1", "3"], "answer": 0})"));
  model_.attention_prefix = 0;
  ids_ = IdTokenizer(300);
  EXPECT_TRUE(names_all(error("", "3"), {"q.jsonl:1", "context", "ends a document"}));
}

TEST_F(Choices, ResultsHaveDifferentPlainNames) {
  const std::string text = R"({"question": "1", "choices": ["1", "2"], "answer": 0})";
  const std::string path = write(text), odd = write(text, "my file.jsonl");
  EXPECT_EQ(open_choices({path, write(text, "HellaSwag_val-1.jsonl")}, ids_, model_)[1]->name(),
            "HellaSwag_val-1");
  const auto error = [&](const std::vector<std::string>& paths) {
    return error_of([&] { open_choices(paths, ids_, model_); });
  };
  EXPECT_TRUE(names_all(error({path, path}), {"q.jsonl", "both are called q"}));
  EXPECT_TRUE(names_all(error({odd}), {"\"my file\"", "letters", "rename"}));
  model_.kind = ModelKind::bert;
  EXPECT_TRUE(names_all(error({path}), {"q.jsonl", "next token", "BERT"}));
}

TEST_F(Choices, ScoresAreThoseOfLmEvaluationHarness) {
  const ChoiceDataset dataset =
      of_ids(R"({"question": "1", "choices": ["1", "1 2 3 4"], "answer": 0})"
             "\n"
             R"({"question": "1", "choices": ["1", "1 2 3 4"], "answer": 1})"
             "\n"
             R"({"question": "1", "choices": ["2", "1", "3"], "answer": 0})"
             "\n"
             R"({"question": "1", "choices": ["2", "1", "3"], "answer": 1})"
             "\n"
             R"({"question": "1", "choices": ["2", "1", "3"], "answer": 2})");
  // Per character −2 and −1; ties go to the first.
  const std::vector<double> found = {-2, -7, -2, -7, -1, -1, -3, -1, -1, -3, -2, -2, -1};
  const ChoiceScores scores = score_choices(dataset, found);
  EXPECT_EQ(scores.name, "q");
  EXPECT_EQ(scores.questions, 5);
  EXPECT_EQ(scores.choices, 13);
  EXPECT_EQ(scores.acc.value, 3.0 / 5.0);       // questions 0, 2 and 4
  EXPECT_EQ(scores.acc_norm.value, 3.0 / 5.0);  // questions 1, 2 and 4
  EXPECT_DOUBLE_EQ(scores.acc.error, std::sqrt(0.6 * 0.4 / 4.0));
  EXPECT_EQ(describe(scores), "q acc 60.0% ± 24.5%, acc_norm 60.0% ± 24.5%");
  EXPECT_TRUE(names_all(error_of([&] { score_choices(dataset, {}); }), {"0", "13"}));
}

TEST_F(Choices, CountsCharactersAndNotBytes) {
  const ChoiceDataset dataset(
      write(R"({"question": "a", "choices": ["üüüü", "abcd"], "answer": 0})"),
      *make_tokenizer("byte"), [&] {
        ModelConfig longer = model_;
        longer.seq_length = 20;
        return longer;
      }());
  EXPECT_EQ(dataset.characters(0), 4);
  // One question has no standard error.
  const ChoiceScores scores = score_choices(dataset, std::vector<double>{-4, -5});
  EXPECT_EQ(describe(scores), "q acc 100.0%, acc_norm 100.0%");
  EXPECT_TRUE(std::isnan(scores.acc.error));
}

}  // namespace
}  // namespace tessera
