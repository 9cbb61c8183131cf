#include "launch/tools/predict/predict.h"

#include <gtest/gtest.h>

#include <numeric>

#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::kSmallVocabulary;
using test::small_run;
using test::SmallKind;

/// fp32 sums in a different order, once per layer, of logits of about 1.
constexpr double kTolerance = 1e-5;

class Predict : public testing::Test {
 protected:
  Predict() { test::write_small_data(folder_); }

  /// Trains for a few steps. Returns the checkpoint.
  fs::path train_checkpoint(SmallKind kind) const {
    const RunConfig run = small_run(folder_, to_string(kind), kind);
    fs::path path;
    run_thread_ranks(1, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, 1);
      Trainer trainer(run, groups, open_training_data(run));
      trainer.initialize();
      for (int i = 0; i < 5; ++i) trainer.step();
      path = trainer.save().path;
    });
    return path;
  }

  /// Calls `use(model)` on each of `ranks` tensor ranks.
  template <typename Use>
  static void with_model(const fs::path& path, int ranks, Use&& use) {
    run_thread_ranks(ranks, [&](Communicator& world) {
      Checkpoint checkpoint = Checkpoint::open(path);
      TextModel model(checkpoint, world, kCpu);
      use(model);
    });
  }

  test::TestFolder folder_;
};

/// [CLS] words [SEP], with [MASK] in two places.
Sample text() {
  Sample sample;
  sample.tokens = {2, 9, 4, 11, 30, 4, 52, 3};
  sample.targets.assign(sample.tokens.size(), -1);
  sample.document_lengths = {static_cast<int32_t>(sample.tokens.size())};
  return sample;
}

const std::vector<int32_t> kPlaces = {2, 5};

using Candidates = std::vector<std::vector<Candidate>>;

/// Of one text.
Candidates fill_masks(TextModel& model, const Sample& sample, const std::vector<int32_t>& places,
                      int64_t top, int64_t vocab_size) {
  const MaskedText text{sample, places};
  return tessera::fill_masks(model, {&text, 1}, top, vocab_size)[0];
}

double sum_of(const std::vector<Candidate>& candidates) {
  return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.probability; });
}

TEST_F(Predict, FillsMasksAlikeOnEveryLayout) {
  const fs::path path = train_checkpoint(SmallKind::bert_pairs);
  std::vector<std::vector<Candidate>> whole;
  with_model(path, 1, [&](TextModel& model) {
    whole = fill_masks(model, text(), kPlaces, 1000, kSmallVocabulary);
  });
  ASSERT_EQ(whole.size(), kPlaces.size());
  for (const auto& candidates : whole) {
    ASSERT_EQ(candidates.size(), static_cast<size_t>(kSmallVocabulary));
    EXPECT_NEAR(sum_of(candidates), 1.0, 1e-12);
    EXPECT_TRUE(std::is_sorted(
        candidates.begin(), candidates.end(),
        [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; }));
  }
  EXPECT_NE(whole[0][0].probability, whole[1][0].probability)
      << "both places have the same prediction";
  for (const int ranks : {1, 2, 4}) {
    with_model(path, ranks, [&](TextModel& model) {
      const auto found = fill_masks(model, text(), kPlaces, 3, kSmallVocabulary);
      for (size_t i = 0; i < kPlaces.size(); ++i) {
        ASSERT_EQ(found[i].size(), 3u);
        for (size_t n = 0; n < 3; ++n) {
          EXPECT_EQ(found[i][n].token, whole[i][n].token);
          EXPECT_NEAR(found[i][n].probability, whole[i][n].probability, kTolerance);
        }
      }
    });
  }
}

TEST_F(Predict, LongerTextDoesNotAffectNextShorterOne) {
  const fs::path path = train_checkpoint(SmallKind::bert_pairs);
  Sample longer = text();
  longer.tokens.insert(longer.tokens.end() - 1, 8, 20);
  longer.targets.assign(16, -1);
  longer.document_lengths = {16};
  with_model(path, 2, [&](TextModel& model) {
    const auto alone = fill_masks(model, text(), kPlaces, 1, kSmallVocabulary);
    const auto other = fill_masks(model, longer, kPlaces, 1, kSmallVocabulary);
    const auto again = fill_masks(model, text(), kPlaces, 1, kSmallVocabulary);
    EXPECT_EQ(again[0][0].probability, alone[0][0].probability);
    EXPECT_NE(other[0][0].probability, alone[0][0].probability);
  });
}

TEST_F(Predict, ExcludesTokensOutsideTokenizer) {
  with_model(train_checkpoint(SmallKind::bert_pairs), 2, [](TextModel& model) {
    const auto found = fill_masks(model, text(), kPlaces, 1000, 10);
    ASSERT_EQ(found[0].size(), 10u);
    EXPECT_NEAR(sum_of(found[0]), 1.0, 1e-12);
    for (const Candidate& candidate : found[0]) EXPECT_LT(candidate.token, 10);
  });
}

TEST_F(Predict, PredictsSameLabelsOnEveryLayout) {
  const fs::path path = train_checkpoint(SmallKind::classifier);
  std::vector<double> whole;
  with_model(path, 1, [&](TextModel& model) { whole = predict_labels(model, {{text()}})[0]; });
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_NEAR(std::accumulate(whole.begin(), whole.end(), 0.0), 1.0, 1e-12);
  for (const int ranks : {2, 4}) {
    with_model(path, ranks, [&](TextModel& model) {
      const std::vector<double> found = predict_labels(model, {{text()}})[0];
      for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(found[i], whole[i], kTolerance);
    });
  }
}

TEST_F(Predict, RejectsUnsupportedModelsAndTexts) {
  const auto fill = [](TextModel& model) {
    fill_masks(model, text(), kPlaces, 1, kSmallVocabulary);
  };
  with_model(train_checkpoint(SmallKind::gpt), 1, [&](TextModel& model) {
    expect_error([&] { fill(model); }, {"is a GPT-2 that this command cannot use"});
    expect_error([&] { predict_labels(model, {{text()}}); }, {"that this command cannot use"});
  });
  with_model(train_checkpoint(SmallKind::classifier), 1, [&](TextModel& model) {
    expect_error([&] { fill(model); }, {"it classifies texts, with tessera classify"});
  });
  with_model(train_checkpoint(SmallKind::bert_packed), 1, [&](TextModel& model) {
    expect_error([&] { predict_labels(model, {{text()}}); }, {"that this command cannot use"});
    for (const std::vector<int32_t>& wrong :
         std::vector<std::vector<int32_t>>{{5, 2}, {2, 2}, {-1}, {8}}) {
      expect_error([&] { fill_masks(model, text(), wrong, 1, kSmallVocabulary); },
                   {"of a text of 8 tokens cannot be filled: positions ascend, from 0 to 7"});
    }
    Sample longer = text();
    longer.tokens.assign(17, 9);
    longer.targets.assign(17, -1);
    longer.document_lengths = {17};
    expect_error([&] { fill_masks(model, longer, kPlaces, 1, kSmallVocabulary); },
                 {"the text has 17 tokens", "at most 16"});
  });
}

}  // namespace
}  // namespace tessera
