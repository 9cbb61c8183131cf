#include "launch/metrics/evaluation.h"

#include <gtest/gtest.h>

#include <functional>
#include <string_view>

#include "core/memory.h"
#include "core/ops/cross_entropy.h"
#include "launch/data/loading/batch_buffers.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

constexpr int64_t kVocabulary = 10;
constexpr int64_t kLabels = 3;

/// Without labels: a model with a language head.
ModelConfig classifier(int64_t labels,
                       ProblemType type = ProblemType::single_label_classification) {
  ModelConfig config;
  config.vocab_size = kVocabulary;
  config.num_labels = labels;
  config.head = labels > 0 ? Head::classification : Head::pretraining;
  config.problem_type = type;
  return config;
}

/// A text of two tokens. The second may have a target.
struct Text {
  int32_t label = 0;
  int32_t prediction = 0;
  int32_t target = kIgnoreTarget;
};

/// Adds the texts to an evaluation's counts, as one batch.
void add(const std::vector<Text>& texts, EvaluationCounts& found, TargetCounts& counts) {
  BatchBuffers buffers({static_cast<int64_t>(texts.size()) + 1, 4});
  std::vector<int32_t> predictions;
  for (const Text& text : texts) {
    Sample sample;
    sample.tokens = {1, 2};
    sample.targets = {kIgnoreTarget, text.target};
    sample.document_lengths = {2};
    sample.labels = {text.label};
    buffers.append(sample, kVocabulary, "texts", 0);
    predictions.push_back(text.prediction);
  }
  const Shape shape = {static_cast<int64_t>(predictions.size())};
  found.add(buffers.batch(), Tensor(predictions.data(), shape, DType::i32, kCpu));
  counts.add(buffers.batch());
}

/// Label 0 is predicted for 3 of its 4 texts and label 1 for 2 of its 4. Label 2, which no text
/// has, is predicted for 2 labeled texts. One text has no label. Three of the five targets are 7.
const std::vector<Text> kTexts = {{0, 0, 7}, {0, 0, 3}, {0, 0, 7}, {0, 1, 7},         {1, 1, 4},
                                  {1, 1},    {1, 2},    {1, 2},    {kIgnoreTarget, 2}};

/// Plausible sums of the losses over all of kTexts.
OwnedTensor loss_sums() {
  OwnedTensor sums({LossSums::kCount}, DType::f64);
  const LossSums parts{sums.tensor};
  parts.token_loss().data<double>()[0] = 10.0;
  parts.token_correct().data<double>()[0] = 4.0;
  parts.document_loss().data<double>()[0] = 4.0;
  parts.document_correct().data<double>()[0] = 5.0;
  return sums;
}

void expect_all_texts(const Evaluation& found) {
  EXPECT_EQ(found.counts.tokens, 18);
  EXPECT_EQ(found.counts.token_targets, 5);
  EXPECT_EQ(found.counts.document_targets, 8);
  EXPECT_DOUBLE_EQ(found.losses.token, 10.0 / 5);
  EXPECT_DOUBLE_EQ(found.losses.document, 4.0 / 8);
  EXPECT_DOUBLE_EQ(found.token_accuracy, 4.0 / 5);
  EXPECT_DOUBLE_EQ(found.most_frequent_token, 3.0 / 5);
  EXPECT_DOUBLE_EQ(found.document_accuracy, 5.0 / 8);
  ASSERT_EQ(found.f1.size(), static_cast<size_t>(kLabels));
  EXPECT_DOUBLE_EQ(found.f1[0], 6.0 / 7);  // precision 3/3, recall 3/4
  EXPECT_DOUBLE_EQ(found.f1[1], 4.0 / 7);  // precision 2/3, recall 2/4
  EXPECT_EQ(found.f1[2], 0.0);             // precision 0/2, no recall
  EXPECT_DOUBLE_EQ(found.macro_f1(), 10.0 / 21);
  EXPECT_EQ(found.precision, (std::vector<double>{1.0, 2.0 / 3, 0.0}));
  EXPECT_EQ(found.recall, (std::vector<double>{0.75, 0.5, 0.0}));
  const std::string table = class_table(found, {"good", "bad", "so-so"});
  EXPECT_NE(table.find("\nbad        66.7%   50.0%  0.571"), std::string::npos) << table;
  EXPECT_NE(table.find("predicted as   good    bad  so-so\n"), std::string::npos) << table;
}

TEST(Evaluation, RatesMatchConfusionMatrix) {
  const auto self = make_self_communicator();
  EvaluationCounts found(classifier(kLabels));
  TargetCounts counts;
  add(kTexts, found, counts);
  expect_all_texts(found.finish({loss_sums().tensor}, counts, *self));
}

TEST(Evaluation, SumsCountsOverRanks) {
  for (const int ranks : {2, 4, 12}) {  // some of the 12 have no text
    run_thread_ranks(ranks, [&](Communicator& dp) {
      EvaluationCounts found(classifier(kLabels));
      TargetCounts counts;
      std::vector<Text> own;
      for (size_t i = 0; i < kTexts.size(); ++i) {
        if (static_cast<int>(i) % ranks == dp.rank()) own.push_back(kTexts[i]);
      }
      add(own, found, counts);
      counts.all_reduce(dp);
      expect_all_texts(found.finish({loss_sums().tensor}, counts, dp));
    });
  }
}

/// A text's label values and the logits predicted for them.
struct Values {
  std::vector<float> targets, logits;
};

void add(const std::vector<Values>& texts, int64_t width, EvaluationCounts& found,
         TargetCounts& counts) {
  BatchBuffers buffers({static_cast<int64_t>(texts.size()) + 1, 4, width});
  std::vector<float> logits;
  for (const Values& text : texts) {
    Sample sample;
    sample.tokens = {1, 2};
    sample.targets.assign(2, kIgnoreTarget);
    sample.document_lengths = {2};
    sample.labels = {0};
    sample.label_values = text.targets;
    buffers.append(sample, kVocabulary, "texts", 0);
    logits.insert(logits.end(), text.logits.begin(), text.logits.end());
  }
  const Shape shape = {std::ssize(texts), width};
  found.add(buffers.batch(), Tensor(logits.data(), shape, DType::f32, kCpu));
  counts.add(buffers.batch());
}

/// Evaluates on each of `ranks`, which share the texts.
void evaluate_on_ranks(const ModelConfig& config, int64_t width, const std::vector<Values>& texts,
                       int ranks, const std::function<void(const Evaluation&)>& check) {
  run_thread_ranks(ranks, [&](Communicator& dp) {
    EvaluationCounts found(config);
    TargetCounts counts;
    std::vector<Values> own;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (static_cast<int>(i) % ranks == dp.rank()) own.push_back(texts[i]);
    }
    add(own, width, found, counts);
    counts.all_reduce(dp);
    check(found.finish({loss_sums().tensor}, counts, dp));
  });
}

double metric(const Evaluation& found, std::string_view key) {
  for (const Metric& metric : found.metrics) {
    if (metric.key == key) return metric.value;
  }
  ADD_FAILURE() << "no metric " << key;
  return 0.0;
}

TEST(Evaluation, CountsSetsOfLabels) {
  // Label 0: 2 of 3 found. Label 1: 1 of 1 found, and 1 too many. Label 2: neither.
  const std::vector<Values> texts = {{{1, 0, 0}, {2.0f, -1.0f, -3.0f}},
                                     {{1, 1, 0}, {0.5f, 0.1f, -0.1f}},
                                     {{1, 0, 0}, {-0.5f, 4.0f, -1.0f}},
                                     {{0, 0, 0}, {-1.0f, -1.0f, 0.0f}}};
  const ModelConfig config = classifier(kLabels, ProblemType::multi_label_classification);
  for (const int ranks : {1, 2, 3, 8}) {
    evaluate_on_ranks(config, kLabels, texts, ranks, [](const Evaluation& found) {
      EXPECT_FALSE(found.one_label);
      EXPECT_DOUBLE_EQ(metric(found, "exact_match"), 3.0 / 4);
      EXPECT_DOUBLE_EQ(metric(found, "micro_f1"), 2.0 * 3 / (4 + 4));
      EXPECT_EQ(found.f1, (std::vector<double>{4.0 / 5, 2.0 / 3, 0.0}));
    });
  }
}

/// A sentence of words, and what was predicted for them.
struct LabeledWords {
  std::vector<int32_t> labels, found;
};

TEST(Evaluation, CountsEntities) {
  // O, B-X, I-X, B-Y. Of 4 entities 2 are found, and 2 others.
  const std::vector<LabeledWords> sentences = {
      {{1, 2, 0, 3}, {1, 2, 0, 1}}, {{0, 3}, {0, 3}}, {{1, 2}, {1, 0}}, {{0, 0, 0}, {0, 0, 0}}};
  ModelConfig config;
  config.vocab_size = kVocabulary;
  config.head = Head::token_classification;
  config.num_labels = 4;
  for (const int ranks : {1, 2, 3, 8}) {
    run_thread_ranks(ranks, [&](Communicator& dp) {
      EvaluationCounts found(config, {"O", "B-X", "I-X", "B-Y"});
      TargetCounts counts;
      BatchBuffers buffers({4, 8});
      std::vector<int32_t> predictions;
      for (size_t i = 0; i < sentences.size(); ++i) {
        if (static_cast<int>(i) % ranks != dp.rank()) continue;
        const size_t words = sentences[i].labels.size();
        Sample sample;
        sample.tokens.assign(words + 2, 1);
        sample.targets.assign(words + 2, kIgnoreTarget);
        std::ranges::copy(sentences[i].labels, sample.targets.begin() + 1);
        sample.document_lengths = {static_cast<int32_t>(words + 2)};
        buffers.append(sample, kVocabulary, "words", 0);
        predictions.insert(predictions.end(), sentences[i].found.begin(), sentences[i].found.end());
      }
      const Shape shape = {std::ssize(predictions)};
      found.add(buffers.batch(), Tensor(predictions.data(), shape, DType::i32, kCpu));
      counts.add(buffers.batch());
      counts.all_reduce(dp);
      const Evaluation result = found.finish({loss_sums().tensor}, counts, dp);
      EXPECT_DOUBLE_EQ(metric(result, "entity_precision"), 2.0 / 4);
      EXPECT_DOUBLE_EQ(metric(result, "entity_recall"), 2.0 / 4);
      EXPECT_DOUBLE_EQ(metric(result, "entity_f1"), 0.5);
      EXPECT_DOUBLE_EQ(result.most_frequent_token, 5.0 / 11);
      EXPECT_TRUE(result.f1.empty());
    });
  }
  const auto self = make_self_communicator();
  EvaluationCounts other(config, {"NOUN", "VERB", "ADJ", "DET"});
  EXPECT_TRUE(other.finish({loss_sums().tensor}, {}, *self).metrics.empty());
}

// The values of scipy.stats.pearsonr and spearmanr.
TEST(Evaluation, CorrelatesNumbers) {
  const std::vector<Values> texts = {{{1.0f}, {2.0f}},  {{2.0f}, {1.0f}},  {{2.0f}, {4.0f}},
                                     {{4.5f}, {3.5f}},  {{-3.0f}, {0.0f}}, {{0.5f}, {1.0f}},
                                     {{10.0f}, {5.0f}}, {{4.5f}, {4.0f}}};
  const ModelConfig config = classifier(1, ProblemType::regression);
  for (const int ranks : {1, 2, 3, 12}) {
    evaluate_on_ranks(config, 1, texts, ranks, [](const Evaluation& found) {
      EXPECT_DOUBLE_EQ(metric(found, "mse"), 4.0 / 8);  // of loss_sums()
      EXPECT_NEAR(metric(found, "pearson"), 0.8593104446205861, 1e-12);
      EXPECT_NEAR(metric(found, "spearman"), 0.8597560975609758, 1e-12);
      EXPECT_TRUE(found.f1.empty());
    });
  }
}

TEST(Evaluation, SaysWhyANumberIsUndefined) {
  struct Case {
    ProblemType type;
    std::vector<Values> texts;
    const char* key;
    const char* why;
  };
  const auto label_sets = ProblemType::multi_label_classification;
  const Case cases[] = {
      {ProblemType::regression,
       {{{1.0f}, {2.0f}}, {{3.0f}, {2.0f}}},
       "pearson",
       "all predictions are equal"},
      {ProblemType::regression,
       {{{1.0f}, {2.0f}}, {{1.0f}, {3.0f}}},
       "spearman",
       "all targets are equal"},
      {ProblemType::regression, {{{1.0f}, {2.0f}}}, "pearson", "there are fewer than two texts"},
      {ProblemType::regression,
       {{{1.0f}, {NAN}}, {{2.0f}, {3.0f}}},
       "pearson",
       "a prediction is not finite"},
      {ProblemType::regression, {}, "mse", "no text has labels"},
      {label_sets, {}, "exact_match", "no text has labels"},
      {label_sets,
       {{{0, 0, 0}, {-1.0f, -1.0f, -1.0f}}},
       "micro_f1",
       "no label is given, and none was predicted"}};
  for (const auto& [type, texts, key, why] : cases) {
    const int64_t width = type == ProblemType::regression ? 1 : kLabels;
    evaluate_on_ranks(classifier(width, type), width, texts, 2, [&](const Evaluation& found) {
      EXPECT_TRUE(std::isnan(metric(found, key)));
      const Json json = parse_json(numbers_of(found).dump(), "the numbers");
      EXPECT_TRUE(json.at(key).is_null()) << key;
      EXPECT_EQ(json.at(fmt::format("{}_undefined", key)), why);
      EXPECT_EQ(describe(found).find("nan"), std::string::npos) << describe(found);
    });
  }
}

TEST(Evaluation, HasNoLossWithoutTargets) {
  Evaluation none;
  EXPECT_TRUE(std::isnan(none.best_loss())) << "is no better than any other";
  EXPECT_TRUE(numbers_of(none).at("loss").is_null());
  EXPECT_TRUE(numbers_of(none).contains("loss_undefined"));
  EXPECT_EQ(describe(none).find("0.0"), std::string::npos) << describe(none);
  none.counts.token_targets = 1;
  EXPECT_EQ(none.best_loss(), 0.0);
}

TEST(Evaluation, IsZeroWithoutTexts) {
  const auto self = make_self_communicator();
  const OwnedTensor sums({LossSums::kCount}, DType::f64);
  for (const int64_t labels : {int64_t{0}, kLabels}) {
    EvaluationCounts none(classifier(labels));
    TargetCounts counts;
    add({}, none, counts);
    const Evaluation found = none.finish({sums.tensor}, counts, *self);
    EXPECT_EQ(found.losses.total(), 0.0);
    EXPECT_EQ(found.token_accuracy, 0.0);
    EXPECT_EQ(found.most_frequent_token, 0.0);
    EXPECT_EQ(found.document_accuracy, 0.0);
    EXPECT_EQ(found.f1, std::vector<double>(static_cast<size_t>(labels), 0.0));
    EXPECT_EQ(found.macro_f1(), 0.0);
  }
}

TEST(Evaluation, HasNoF1WithoutClassifier) {
  const auto self = make_self_communicator();
  EvaluationCounts found(classifier(0));
  TargetCounts counts;
  add(kTexts, found, counts);
  const Evaluation result = found.finish({loss_sums().tensor}, counts, *self);
  EXPECT_TRUE(result.f1.empty());
  EXPECT_DOUBLE_EQ(result.document_accuracy, 5.0 / 8);
}

}  // namespace
}  // namespace tessera
