#include <gtest/gtest.h>

#include <cmath>

#include "tests/equivalence/small_run_fixtures.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

constexpr int64_t kSteps = test::kSmallRunSteps;
constexpr double kTolerance = test::kSmallRunTolerance;

RunConfig with_sequence(RunConfig config) {
  config.parallel.sequence = true;
  return config;
}

class Sequence : public test::SmallRuns {};

class SequenceOnLayouts : public test::SmallRunOnLayout {};

const Layout kLayouts[] = {{2, 2}, {4, 1}};

TEST_P(SequenceOnLayouts, MatchesUnsharded) {
  const WholeRun whole = test::train_whole(config(), {{1, 1}, kSteps});
  const WholeRun with = test::train_whole(with_sequence(config()), {layout(), kSteps});
  test::expect_same_bits(with.initial_weights, whole.initial_weights, "initial weights");
  test::expect_equal(with, whole, tolerance());
}

INSTANTIATE_TEST_SUITE_P(All, SequenceOnLayouts,
                         testing::Combine(testing::ValuesIn(test::kSmallKinds),
                                          testing::ValuesIn(kLayouts)),
                         test::kind_and_layout);

class SequenceInBf16 : public SequenceOnLayouts {};

TEST_P(SequenceInBf16, MatchesUnsharded) {
  RunConfig bf16 = config();
  bf16.run.precision = DType::bf16;
  const WholeRun whole = test::train_whole(bf16, {{1, 1}, 5});
  const WholeRun with = test::train_whole(with_sequence(bf16), {layout(), 5});
  // Tolerances as in layouts_test.cpp and, for the deeper BERT, kinds_test.cpp.
  for (size_t i = 0; i < whole.steps.size(); ++i) {
    EXPECT_NEAR(with.steps[i].loss(), whole.steps[i].loss(), 0x1p-8 * whole.steps[i].loss());
  }
  test::expect_close(with.first_gradients, whole.first_gradients, 8 * std::sqrt(20.0) * 0x1p-8,
                     "gradient");
}

INSTANTIATE_TEST_SUITE_P(All, SequenceInBf16,
                         testing::Combine(testing::Values(SmallKind::gpt_blend,
                                                          SmallKind::bert_pairs),
                                          testing::ValuesIn(kLayouts)),
                         test::kind_and_layout);

class SequenceOfEachKind : public Sequence, public testing::WithParamInterface<SmallKind> {};

TEST_P(SequenceOfEachKind, IsBitExactWithRecomputation) {
  const RunConfig kept = with_sequence(config(GetParam()));
  const WholeRun whole = test::train_whole(kept, {{2, 1}, 3});
  for (const Recompute recompute : {Recompute::activation, Recompute::block}) {
    RunConfig again = kept;
    again.train.recompute = recompute;
    const WholeRun recomputed = test::train_whole(again, {{2, 1}, 3});
    test::expect_same_bits(recomputed.first_gradients, whole.first_gradients, "gradients");
    test::expect_same_bits(recomputed.weights, whole.weights, "weights");
  }
}

INSTANTIATE_TEST_SUITE_P(All, SequenceOfEachKind, testing::ValuesIn(test::kSmallKinds),
                         [](const auto& instance) { return to_string(instance.param); });

TEST_F(Sequence, OneTensorRankIsBitExact) {
  const RunConfig run = config(SmallKind::gpt_blend);
  test::expect_same_bits(test::train_whole(with_sequence(run), {{1, 2}, 3}).weights,
                         test::train_whole(run, {{1, 2}, 3}).weights, "weights");
}

TEST_F(Sequence, MatchesReplicatedOptimizerWithZero) {
  for (const SmallKind kind : {SmallKind::gpt_blend, SmallKind::bert_pairs}) {
    RunConfig run = with_sequence(config(kind));
    const WholeRun apart = test::train_whole(run, {{2, 2}, kSteps});
    run.parallel.zero = 1;
    const WholeRun shared = test::train_whole(run, {{2, 2}, kSteps});
    test::expect_close(shared.weights, apart.weights, 10 * kTolerance, "weights");
    for (size_t i = 0; i < apart.steps.size(); ++i) {
      const StepResult& expected = apart.steps[i];
      EXPECT_NEAR(shared.steps[i].loss(), expected.loss(), kTolerance * expected.loss());
      EXPECT_NEAR(shared.steps[i].grad_norm, expected.grad_norm,
                  10 * kTolerance * expected.grad_norm);
    }
  }
}

TEST_F(Sequence, RunsAreDeterministic) {
  const RunConfig run = with_sequence(config(SmallKind::bert_pairs));
  test::expect_same_bits(test::train_whole(run, {{4, 2}, 3}).weights,
                         test::train_whole(run, {{4, 2}, 3}).weights, "weights");
}

TEST_F(Sequence, AllowsRanksWithoutRows) {
  // Rows of [CLS], a word and [SEP], one at a time: three rows on four ranks.
  std::vector<std::vector<int32_t>> documents(80, {5});
  for (size_t i = 0; i < documents.size(); ++i) documents[i][0] += static_cast<int32_t>(i % 7);
  test::write_documents(folder_ / "data", documents);
  RunConfig run = config(SmallKind::bert_packed);
  run.data.short_samples = ShortSamples::pad;
  run.mlm.probability = 0.5;
  run.batch.micro = 1;
  const WholeRun whole = test::train_whole(run, {{1, 1}, kSteps});
  test::expect_equal(test::train_whole(with_sequence(run), {{4, 1}, kSteps}), whole, kTolerance);
}

TEST_F(Sequence, EvaluatesPartialLastBatch) {
  for (const SmallKind kind : {SmallKind::bert_pairs, SmallKind::gpt_documents}) {
    RunConfig run = config(kind);
    run.eval.batches = 1000;  // all batches; the last has no row for some ranks
    const WholeRun whole = test::train_whole(run, {{1, 1}, 1});
    test::expect_equal(test::train_whole(with_sequence(run), {{2, 4}, 1}), whole, kTolerance);
  }
}

class ResumeSequence : public Sequence {
 protected:
  static constexpr int64_t kBefore = 4, kAfter = 4;

  static WholeRun interrupted(const RunConfig& first, Layout from, const RunConfig& second,
                              Layout to) {
    test::train_whole(first, {from, kBefore, /*resume=*/false, /*save=*/true});
    return test::train_whole(second, {to, kAfter, /*resume=*/true});
  }
};

TEST_F(ResumeSequence, OnSameLayoutIsBitExact) {
  const RunConfig run = with_sequence(config(SmallKind::bert_packed));
  const WholeRun uninterrupted = test::train_whole(run, {{2, 2}, kBefore + kAfter});
  const WholeRun resumed = interrupted(run, {2, 2}, run, {2, 2});
  test::expect_same_bits(resumed.weights, uninterrupted.weights, "weights");
  test::expect_same_bits(resumed.exp_avg, uninterrupted.exp_avg, "moments");
}

TEST_F(ResumeSequence, FromAndToLayoutsWithoutSequenceParallelism) {
  for (const SmallKind kind : {SmallKind::gpt_blend, SmallKind::bert_pairs}) {
    const RunConfig run = config(kind), with = with_sequence(run);
    const WholeRun uninterrupted = test::train_whole(run, {{1, 1}, kBefore + kAfter});
    const WholeRun to = interrupted(run, {1, 2}, with, {4, 1});
    std::filesystem::remove_all(run.run.dir);
    const WholeRun from = interrupted(with, {2, 2}, run, {1, 1});
    std::filesystem::remove_all(run.run.dir);
    for (const WholeRun* resumed : {&to, &from}) {
      for (size_t i = 0; i < kAfter; ++i) {
        const double expected = uninterrupted.steps[kBefore + i].loss();
        EXPECT_NEAR(resumed->steps[i].loss(), expected, kTolerance * expected);
      }
      // The gradients of the sentence head's biases almost cancel, so their roundings count more.
      test::expect_close(resumed->weights, uninterrupted.weights, 20 * kTolerance, "weights");
    }
  }
}

}  // namespace
}  // namespace tessera
