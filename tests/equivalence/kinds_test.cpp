#include <gtest/gtest.h>

#include <cmath>

#include "launch/train/memory/memory_plan.h"
#include "parallel/process_grid.h"
#include "tests/equivalence/small_run_fixtures.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

constexpr int64_t kSteps = test::kSmallRunSteps;
constexpr double kTolerance = test::kSmallRunTolerance;

class Kinds : public test::SmallRuns {};

class KindsOnLayouts : public test::SmallRunOnLayout {};

TEST_P(KindsOnLayouts, ShardedMatchesUnsharded) {
  const WholeRun whole = test::train_whole(config(), {{1, 1}, kSteps});
  const WholeRun sharded = test::train_whole(config(), {layout(), kSteps});
  test::expect_same_bits(sharded.initial_weights, whole.initial_weights, "initial weights");
  test::expect_equal(sharded, whole, tolerance());
}

// Two and four ranks of each kind, alone and together; layouts_test.cpp has the others.
const Layout kLayouts[] = {{1, 4}, {2, 2}, {4, 1}, {4, 4}};

INSTANTIATE_TEST_SUITE_P(All, KindsOnLayouts,
                         testing::Combine(testing::ValuesIn(test::kOtherSmallKinds),
                                          testing::ValuesIn(kLayouts)),
                         test::kind_and_layout);

class Bf16OnLayouts : public KindsOnLayouts {};

TEST_P(Bf16OnLayouts, ShardedMatchesUnsharded) {
  RunConfig bf16 = config();
  bf16.run.precision = DType::bf16;
  const WholeRun whole = test::train_whole(bf16, {{1, 1}, 5});
  const WholeRun sharded = test::train_whole(bf16, {layout(), 5});
  test::expect_same_bits(sharded.initial_weights, whole.initial_weights, "initial weights");
  // Tolerances as in layouts_test.cpp, for a gradient with twice as many roundings: the head's own
  // layer, and the norm after each sum.
  for (size_t i = 0; i < whole.steps.size(); ++i) {
    EXPECT_NEAR(sharded.steps[i].loss(), whole.steps[i].loss(), 0x1p-8 * whole.steps[i].loss());
  }
  test::expect_close(sharded.first_gradients, whole.first_gradients, 8 * std::sqrt(20.0) * 0x1p-8,
                     "gradient");
}

INSTANTIATE_TEST_SUITE_P(All, Bf16OnLayouts,
                         testing::Combine(testing::Values(SmallKind::bert_pairs),
                                          testing::ValuesIn(kLayouts)),
                         test::kind_and_layout);

class EachKind : public Kinds, public testing::WithParamInterface<SmallKind> {};

TEST_P(EachKind, MicroBatchSizeDoesNotMatter) {
  RunConfig one = config(GetParam());
  one.batch.micro = 8;
  RunConfig eight = one;
  eight.batch.micro = 1;
  test::expect_equal(test::train_whole(eight, {{1, 1}, 5}), test::train_whole(one, {{1, 1}, 5}),
                     test::small_run_tolerance(GetParam()));
}

// With dropout and on tensor ranks: recomputation draws the same random numbers and sums in the
// same order.
TEST_P(EachKind, RecomputationIsBitExact) {
  const RunConfig kept = config(GetParam());
  const WholeRun whole = test::train_whole(kept, {{2, 1}, 3});
  for (const Recompute recompute : {Recompute::activation, Recompute::block}) {
    RunConfig again = kept;
    again.train.recompute = recompute;
    const WholeRun recomputed = test::train_whole(again, {{2, 1}, 3});
    test::expect_same_bits(recomputed.first_gradients, whole.first_gradients, "gradients");
    test::expect_same_bits(recomputed.weights, whole.weights, "weights");
  }
}

// A GPU fuses tanh GELU into the product and applies it to unrounded sums. Recomputing a block
// repeats this; recomputing only the GELU cannot.
TEST_F(Kinds, RecomputationInBf16IsBitExactExceptGpuGelu) {
  RunConfig kept = config(SmallKind::gpt);
  kept.run.precision = DType::bf16;
  const WholeRun whole = test::train_whole(kept, {{2, 1}, 3});
  for (const Recompute recompute : {Recompute::activation, Recompute::block}) {
    if (recompute == Recompute::activation && test::on_gpu()) continue;
    RunConfig again = kept;
    again.train.recompute = recompute;
    const WholeRun recomputed = test::train_whole(again, {{2, 1}, 3});
    test::expect_same_bits(recomputed.first_gradients, whole.first_gradients, "gradients");
    test::expect_same_bits(recomputed.weights, whole.weights, "weights");
  }
}

TEST_F(Kinds, RecomputationSavesMemory) {
  RunConfig run = config(SmallKind::gpt_documents);
  const auto self = make_self_communicator();
  const ParallelGroups groups = make_parallel_groups(*self);
  const auto arena = [&](Recompute recompute) {
    run.train.recompute = recompute;
    return plan_memory(run, groups).arena_bytes;
  };
  EXPECT_LT(arena(Recompute::activation), arena(Recompute::none));
  EXPECT_LT(arena(Recompute::block), arena(Recompute::activation));
}

INSTANTIATE_TEST_SUITE_P(All, EachKind, testing::ValuesIn(test::kOtherSmallKinds),
                         [](const auto& instance) { return to_string(instance.param); });

TEST_F(Kinds, AllowsRankWithoutVocabulary) {
  // 9 tokens on 4 tensor ranks: 3, 3, 3 and 0.
  test::write_vocabulary(folder_ / "vocab.txt", 9);
  std::vector<std::vector<int32_t>> documents(80, {5, 6, 7, 8, 5, 7, 6});
  test::write_documents(folder_ / "data", documents);
  RunConfig run = config(SmallKind::bert_packed);
  run.model.vocab_size = 9;
  const WholeRun whole = test::train_whole(run, {{1, 1}, kSteps, false, /*save=*/true});
  const WholeRun sharded = test::train_whole(run, {{4, 2}, kSteps});
  test::expect_equal(sharded, whole, kTolerance);
  const WholeRun loaded = test::train_whole(run, {{4, 1}, 0, /*resume=*/true});
  test::expect_same_bits(loaded.weights, whole.weights, "weights");
}

TEST_F(Kinds, StepsWithoutTargetsLearnNothing) {
  RunConfig run = config(SmallKind::bert_packed);
  run.mlm.probability = 1e-12;
  run.optimizer.weight_decay = 0.0;
  for (const Layout layout : {Layout{1, 1}, Layout{2, 2}}) {
    const WholeRun trained = test::train_whole(run, {layout, 3});
    for (const StepResult& step : trained.steps) {
      EXPECT_EQ(step.loss(), 0.0);
      EXPECT_EQ(step.grad_norm, 0.0);
      EXPECT_GT(step.tokens, 0);
    }
    test::expect_same_bits(trained.weights, trained.initial_weights, "weights");
    EXPECT_EQ(trained.evaluation.losses.total(), 0.0);
    EXPECT_EQ(trained.evaluation.token_accuracy, 0.0);
  }
}

TEST_F(Kinds, AllowsMicroBatchesWithoutTargets) {
  RunConfig few = config(SmallKind::bert_packed);
  few.mlm.probability = 0.02;  // one token in 50: most micro-batches of one row have no target
  few.batch.micro = 1;
  test::expect_equal(test::train_whole(few, {{2, 2}, kSteps}),
                     test::train_whole(few, {{1, 1}, kSteps}), kTolerance);
}

TEST_F(Kinds, ClassifierLearns) {
  RunConfig run = config(SmallKind::classifier);
  run.model.dropout = run.model.attention_dropout = 0.0;
  run.train.steps = 150;
  run.optimizer.eps = 1e-8;
  run.optimizer.lr = 3e-3;
  const WholeRun trained = test::train_whole(run, {{2, 1}, 150});
  EXPECT_LT(trained.steps.back().loss(), 0.5 * trained.steps.front().loss());
  EXPECT_EQ(trained.evaluation.f1.size(), 3u);
  EXPECT_EQ(trained.evaluation.counts.document_targets, 20);  // of 200 texts
  EXPECT_GT(trained.evaluation.document_accuracy, 0.5);
}

/// The losses of epochs with the same samples, for a model with a learning rate of zero.
std::vector<StepResult> epochs(const test::TestFolder& folder, const RunConfig& base) {
  std::vector<std::vector<int32_t>> documents(8, {5, 9, 13, 17, 21, 25, 29, 33, 37, 41});
  for (size_t i = 0; i < documents.size(); ++i) documents[i][0] += static_cast<int32_t>(i);
  test::write_documents(folder / "epoch", documents);
  RunConfig run = base;
  run.model.dropout = run.model.attention_dropout = 0.0;
  run.data.train = folder / "epoch";
  run.data.eval = run.data.train;
  run.data.eval_fraction = 0.0;
  run.data.short_samples = ShortSamples::pad;
  run.batch.global = 8;  // an epoch is a step
  run.optimizer.lr = 0.0;
  return test::train_whole(run, {{1, 2}, 3}).steps;
}

TEST_F(Kinds, EveryEpochDrawsNewMasks) {
  RunConfig run = config(SmallKind::bert_packed);
  run.mlm.unit = MaskUnit::token;
  const std::vector<StepResult> masked = epochs(folder_, run);
  EXPECT_GT(std::abs(masked[0].loss() - masked[1].loss()), 1e-3);
  EXPECT_GT(std::abs(masked[1].loss() - masked[2].loss()), 1e-3);
  // The masks cause the difference: with all tokens masked, there is only one mask.
  run.mlm = {.probability = 1.0, .mask_fraction = 1.0, .random_fraction = 0.0};
  const std::vector<StepResult> all = epochs(folder_, run);
  EXPECT_NEAR(all[0].loss(), all[1].loss(), kTolerance * all[0].loss());
  EXPECT_NEAR(all[1].loss(), all[2].loss(), kTolerance * all[0].loss());
}

}  // namespace
}  // namespace tessera
