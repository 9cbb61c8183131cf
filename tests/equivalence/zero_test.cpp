// The stages of ZeRO compute the same as replicated weights, gradients and optimizer state.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "launch/checkpoint/find.h"
#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/equivalence/small_run_fixtures.h"
#include "tests/support/runs/device_ranks.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

constexpr int64_t kSteps = 4;

RunConfig with_zero(RunConfig config, int64_t zero) {
  config.parallel.zero = zero;
  return config;
}

/// Trainers with and without ZeRO on the same ranks.
struct BothTrainers {
  BothTrainers(Communicator& world, RunConfig run, int tensor, int64_t zero = 1) {
    run.parallel.tensor = tensor;
    const TrainingData data = open_training_data(run);
    for (Each* each : {&whole, &shared}) {
      each->config = with_zero(run, each == &shared ? zero : 0);
      each->groups.emplace(make_parallel_groups(world, each->config.grid_shape()));
      each->trainer.emplace(each->config, *each->groups, data, test::test_device());
    }
  }

  struct Each {
    RunConfig config;
    std::optional<ParallelGroups> groups = {};
    std::optional<Trainer> trainer = {};
  };
  Each whole, shared;
};

class Zero : public testing::Test {
 protected:
  Zero() { test::write_small_data(folder_); }

  RunConfig config(SmallKind kind, DType precision = DType::f32) const {
    RunConfig config = test::small_run(folder_, "run", kind);
    config.run.precision = precision;
    config.model.dropout = 0.1;
    config.model.attention_dropout = 0.1;
    return config;
  }

  test::TestFolder folder_;
};

/// Thread ranks sum gradients in rank order, whether each gets all sums or a part, and the update
/// of an element depends on nothing else. The squares of the norm are summed in a different order,
/// in fp64: the difference of 2⁻⁵³ does not show in the fp32 factor of clipping.
void expect_same_run(const WholeRun& shared, const WholeRun& whole) {
  ASSERT_EQ(shared.steps.size(), whole.steps.size());
  for (size_t i = 0; i < whole.steps.size(); ++i) {
    EXPECT_EQ(shared.steps[i].loss(), whole.steps[i].loss()) << "step " << i;
    EXPECT_NEAR(shared.steps[i].grad_norm, whole.steps[i].grad_norm,
                1e-13 * whole.steps[i].grad_norm);
  }
  test::expect_same_bits(shared.initial_weights, whole.initial_weights, "initial weights");
  test::expect_same_bits(shared.first_gradients, whole.first_gradients, "gradients");
  test::expect_same_bits(shared.weights, whole.weights, "weights");
  test::expect_same_bits(shared.exp_avg, whole.exp_avg, "moments");
  EXPECT_EQ(shared.evaluation.losses.total(), whole.evaluation.losses.total());
}

class ZeroOnLayouts : public Zero,
                      public testing::WithParamInterface<std::tuple<SmallKind, Layout>> {};

TEST_P(ZeroOnLayouts, MatchesReplicatedOptimizer) {
  const auto& [kind, layout] = GetParam();
  for (const DType precision : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(to_string(precision));
    RunConfig run = config(kind, precision);
    const WholeRun whole = test::train_whole(with_zero(run, 0), {layout, kSteps});
    expect_same_run(test::train_whole(with_zero(run, 1), {layout, kSteps}), whole);
    run.batch.micro = run.batch.global / layout.data;
    const WholeRun at_once = test::train_whole(with_zero(run, 0), {layout, kSteps});
    expect_same_run(test::train_whole(with_zero(run, 3), {layout, kSteps}), at_once);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ZeroOnLayouts,
    testing::Combine(testing::Values(SmallKind::gpt_packed, SmallKind::bert_pairs),
                     testing::Values(Layout{1, 1}, Layout{1, 2}, Layout{1, 4}, Layout{2, 1},
                                     Layout{2, 2}, Layout{2, 4}, Layout{4, 1}, Layout{4, 2},
                                     Layout{4, 4})),
    test::kind_and_layout);

class ShardedBlocks : public Zero, public testing::WithParamInterface<SmallKind> {};

// One micro-batch: each gradient is summed once, in the same order.
TEST_P(ShardedBlocks, HaveTheBitsOfWholeOnes) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(to_string(precision));
    RunConfig run = config(GetParam(), precision);
    run.batch.micro = run.batch.global / 2;
    run.parallel.sequence = precision == DType::f32;
    run.train.recompute = precision == DType::f32 ? Recompute::block : Recompute::none;
    const WholeRun whole = test::train_whole(with_zero(run, 0), {{2, 2}, kSteps});
    for (const int64_t zero : {2, 3}) {
      SCOPED_TRACE(fmt::format("zero {}", zero));
      expect_same_run(test::train_whole(with_zero(run, zero), {{2, 2}, kSteps}), whole);
    }
  }
}

// The ranks' gradients are summed in each micro-batch, and then those of the micro-batches.
TEST_P(ShardedBlocks, AreCloseWithSeveralMicroBatches) {
  RunConfig run = config(GetParam());
  run.optimizer.grad_clip = 0.0;
  const WholeRun whole = test::train_whole(with_zero(run, 0), {{1, 2}, 1});
  for (const int64_t zero : {2, 3}) {
    SCOPED_TRACE(fmt::format("zero {}", zero));
    const WholeRun shared = test::train_whole(with_zero(run, zero), {{1, 2}, 1});
    EXPECT_EQ(shared.steps[0].loss(), whole.steps[0].loss());
    // Sums of eight fp32 numbers in another order.
    test::expect_close(shared.first_gradients, whole.first_gradients, 4e-6, "gradients");
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShardedBlocks, testing::ValuesIn(test::kSmallKinds),
                         [](const auto& instance) { return to_string(instance.param); });

// Copies of shards: groups of two of four data ranks.
TEST_F(Zero, HybridShardsAreCloseToShardsOfAllRanks) {
  for (const SmallKind kind : {SmallKind::gpt_packed, SmallKind::adapters, SmallKind::muon}) {
    for (const int64_t zero : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{}, zero {}", to_string(kind), zero));
      RunConfig run = with_zero(config(kind), zero);
      run.optimizer.grad_clip = 0.0;
      const WholeRun all = test::train_whole(run, {{1, 4}, 1});
      run.parallel.shard = 2;
      const WholeRun hybrid = test::train_whole(run, {{1, 4}, 1});
      EXPECT_EQ(hybrid.steps[0].loss(), all.steps[0].loss());
      test::expect_close(hybrid.first_gradients, all.first_gradients, 4e-6, "gradients");
    }
  }
}

class ZeroKinds : public Zero, public testing::WithParamInterface<SmallKind> {};

// With several micro-batches, and recomputation of all blocks.
TEST_P(ZeroKinds, MatchesReplicatedOptimizerWithRecomputation) {
  RunConfig run = config(GetParam());
  run.batch.micro = 1;
  run.train.recompute = Recompute::block;
  const WholeRun whole = test::train_whole(with_zero(run, 0), {{2, 2}, kSteps});
  expect_same_run(test::train_whole(with_zero(run, 1), {{2, 2}, kSteps}), whole);
}

INSTANTIATE_TEST_SUITE_P(All, ZeroKinds,
                         testing::Values(SmallKind::gpt_documents, SmallKind::gpt_blend,
                                         SmallKind::qwen3, SmallKind::muon, SmallKind::bert_packed,
                                         SmallKind::modernbert, SmallKind::classifier,
                                         SmallKind::multi_label, SmallKind::words,
                                         SmallKind::embeddings, SmallKind::embeddings_cls,
                                         SmallKind::translation, SmallKind::span_corruption,
                                         SmallKind::t5, SmallKind::images, SmallKind::mean_images),
                         [](const auto& instance) { return to_string(instance.param); });

// The sign of an update that is nearly zero depends on the last bits, so layouts other than these
// are not compared.
TEST_F(Zero, LionMatchesReplicatedOptimizerAndResumes) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    RunConfig run = config(SmallKind::gpt_packed, precision);
    std::filesystem::remove_all(run.run.dir);
    run.optimizer.name = OptimizerName::lion;
    run.optimizer.eps = OptimizerSection().eps;
    run.optimizer.betas = {0.9, 0.99};
    run.optimizer.lr = 1e-3;
    const WholeRun whole = test::train_whole(with_zero(run, 0), {{2, 2}, 2 * kSteps});
    EXPECT_LT(whole.steps.back().loss(), whole.steps.front().loss());
    expect_same_run(test::train_whole(with_zero(run, 1), {{2, 2}, 2 * kSteps}), whole);
    test::train_whole(with_zero(run, 1), {{2, 2}, kSteps, /*resume=*/false, /*save=*/true});
    const WholeRun resumed =
        test::train_whole(with_zero(run, 0), {{2, 2}, kSteps, /*resume=*/true});
    test::expect_same_bits(resumed.weights, whole.weights, "weights");
    test::expect_same_bits(resumed.exp_avg, whole.exp_avg, "moments");
  }
}

/// The loss of the last steps of runs that learn alike differs by less than this share.
constexpr double kSameLearning = 0.02;

// The random bits of a moment depend on its element, not on who owns it.
TEST_F(Zero, Bf16MomentsMatchReplicatedOptimizerAndResume) {
  for (const OptimizerName name : {OptimizerName::adamw, OptimizerName::lion}) {
    RunConfig run = config(SmallKind::gpt_packed, DType::bf16);
    std::filesystem::remove_all(run.run.dir);
    run.optimizer.name = name;
    if (name == OptimizerName::lion) run.optimizer.eps = OptimizerSection().eps;
    run.optimizer.betas = {0.9, 0.999};
    run.optimizer.lr = 1e-3;
    const WholeRun fp32 = test::train_whole(with_zero(run, 0), {{2, 2}, 2 * kSteps});
    run.optimizer.moment_dtype = DType::bf16;
    const WholeRun whole = test::train_whole(with_zero(run, 0), {{2, 2}, 2 * kSteps});
    const double expected = fp32.steps.back().loss();
    EXPECT_NEAR(whole.steps.back().loss(), expected, kSameLearning * expected);
    EXPECT_LT(whole.steps.back().loss(), whole.steps.front().loss());
    EXPECT_NE(whole.exp_avg, fp32.exp_avg) << "nothing was rounded";
    expect_same_run(test::train_whole(with_zero(run, 1), {{2, 2}, 2 * kSteps}), whole);
    test::train_whole(with_zero(run, 1), {{2, 2}, kSteps, /*resume=*/false, /*save=*/true});
    for (const int64_t zero : {0, 1}) {
      const WholeRun resumed =
          test::train_whole(with_zero(run, zero), {{2, 2}, kSteps, /*resume=*/true});
      test::expect_same_bits(resumed.weights, whole.weights, "weights");
      test::expect_same_bits(resumed.exp_avg, whole.exp_avg, "moments");
    }
  }
}

/// Neighboring codes are at most 0.9 / 64 of a block's largest number apart, so a number changes by
/// at most half of that, but for rounding in fp32.
void expect_coded_again(const WholeTensors& found, const WholeTensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    float largest = 0.0f, furthest = 0.0f;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      furthest = std::max(furthest, std::abs(found.at(name)[i] - values[i]));
    }
    EXPECT_LE(furthest, 1.001f * 0.45f / 64.0f * largest) << name;
  }
}

// Blocks begin at what a rank owns, so ZeRO-1 rounds moments otherwise.
TEST_F(Zero, Int8MomentsLearnAlikeAndResumeBitExactly) {
  for (const OptimizerName name : {OptimizerName::adamw, OptimizerName::muon}) {
    RunConfig run = config(SmallKind::gpt_packed);
    run.optimizer.name = name;
    run.optimizer.lr = 1e-3;
    const WholeRun fp32 = test::train_whole(with_zero(run, 0), {{2, 2}, 2 * kSteps});
    const double expected = fp32.steps.back().loss();
    run.optimizer.moment_dtype = DType::u8;
    for (const int64_t zero : {0, 1}) {
      std::filesystem::remove_all(run.run.dir);
      const WholeRun whole = test::train_whole(with_zero(run, zero), {{2, 2}, 2 * kSteps});
      EXPECT_NEAR(whole.steps.back().loss(), expected, kSameLearning * expected);
      EXPECT_LT(whole.steps.back().loss(), whole.steps.front().loss());
      EXPECT_NE(whole.exp_avg, fp32.exp_avg) << "nothing was rounded";
      test::train_whole(with_zero(run, zero), {{2, 2}, kSteps, /*resume=*/false, /*save=*/true});
      const WholeRun resumed =
          test::train_whole(with_zero(run, zero), {{2, 2}, kSteps, /*resume=*/true});
      test::expect_same_bits(resumed.weights, whole.weights, "weights");
      test::expect_same_bits(resumed.exp_avg, whole.exp_avg, "moments");
    }
    // On another layout and in fp32: what the codes stood for.
    const WholeRun coded =
        test::train_whole(with_zero(run, 1), {{2, 2}, 0, /*resume=*/true, /*save=*/true});
    run.optimizer.moment_dtype = DType::f32;
    const WholeRun loaded = test::train_whole(run, {{4, 1}, 0, /*resume=*/true});
    test::expect_same_bits(loaded.exp_avg, coded.exp_avg, "decoded moments");
    run.optimizer.moment_dtype = DType::u8;
    const WholeRun again = test::train_whole(run, {{4, 1}, 0, /*resume=*/true});
    expect_coded_again(again.exp_avg, coded.exp_avg);
  }
}

WholeTensors rounded_to_bf16(WholeTensors tensors) {
  for (auto& [name, values] : tensors) {
    for (float& value : values) value = static_cast<float>(bfloat16(value));
  }
  return tensors;
}

// --- checkpoints

TEST_F(Zero, ResumesWithMomentsOfAnotherDType) {
  RunConfig run = config(SmallKind::gpt);
  const WholeRun fp32 = test::train_whole(run, {{2, 2}, kSteps, /*resume=*/false, /*save=*/true});
  run.optimizer.moment_dtype = DType::bf16;
  for (const int64_t zero : {0, 1}) {
    const WholeRun bf16 =
        test::train_whole(with_zero(run, zero), {{1, 4}, 0, /*resume=*/true, /*save=*/zero == 1});
    test::expect_same_bits(bf16.exp_avg, rounded_to_bf16(fp32.exp_avg), "rounded moments");
  }
  run.optimizer.moment_dtype = DType::f32;
  const WholeRun again = test::train_whole(run, {{4, 1}, 0, /*resume=*/true});
  test::expect_same_bits(again.exp_avg, rounded_to_bf16(fp32.exp_avg), "converted moments");
}

/// Part of a run: its layout and ZeRO stage.
struct Leg {
  Layout layout;
  int64_t zero;
};

class ZeroResume : public Zero, public testing::WithParamInterface<std::vector<Leg>> {};

TEST_P(ZeroResume, ResumesFromEitherStageOnAnyLayout) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(to_string(precision));
    const RunConfig run = config(SmallKind::gpt, precision);
    std::filesystem::remove_all(run.run.dir);
    WholeRun before;
    bool resumes = false;
    for (const auto& [layout, zero] : GetParam()) {
      SCOPED_TRACE(fmt::format("{}, zero {}", to_string(layout), zero));
      const WholeRun here =
          test::train_whole(with_zero(run, zero), {layout, 2, resumes, /*save=*/true});
      if (resumes) {
        test::expect_same_bits(here.initial_weights, before.weights, "weights");
        EXPECT_NE(here.weights, before.weights);
      }
      before = here;
      resumes = true;
    }
    const WholeRun loaded = test::train_whole(with_zero(run, 0), {{1, 1}, 0, /*resume=*/true});
    test::expect_same_bits(loaded.weights, before.weights, "weights");
    test::expect_same_bits(loaded.exp_avg, before.exp_avg, "moments");
    if (precision == DType::bf16) continue;
    RunConfig uninterrupted = run;
    uninterrupted.run.dir = folder_ / "uninterrupted";
    const auto steps = static_cast<int64_t>(2 * GetParam().size());
    const WholeRun whole = test::train_whole(uninterrupted, {{1, 1}, steps});
    // As between layouts in layouts_test.cpp and resume_test.cpp.
    constexpr double kTolerance = 2e-5;
    test::expect_close(before.weights, whole.weights, 10 * kTolerance, "weights");
    test::expect_close(before.exp_avg, whole.exp_avg, 50 * kTolerance, "moments");
  }
}

INSTANTIATE_TEST_SUITE_P(Legs, ZeroResume,
                         testing::Values(std::vector<Leg>{{{2, 2}, 3}, {{1, 4}, 0}, {{4, 2}, 1}},
                                         std::vector<Leg>{{{1, 1}, 0}, {{1, 4}, 3}, {{4, 1}, 1}},
                                         std::vector<Leg>{{{2, 4}, 1}, {{2, 2}, 2}, {{1, 4}, 3}},
                                         std::vector<Leg>{{{4, 4}, 2}, {{4, 4}, 0}, {{1, 2}, 3}}),
                         [](const auto& instance) {
                           return fmt::format("path{}", instance.index);
                         });

TEST_F(Zero, ResumesBitExactlyOnSameLayout) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    const int64_t zero = precision == DType::f32 ? 3 : 1;
    const RunConfig run = with_zero(config(SmallKind::gpt_packed, precision), zero);
    std::filesystem::remove_all(run.run.dir);
    const WholeRun whole = test::train_whole(run, {{2, 2}, 2 * kSteps});
    test::train_whole(run, {{2, 2}, kSteps, /*resume=*/false, /*save=*/true});
    const WholeRun resumed = test::train_whole(run, {{2, 2}, kSteps, /*resume=*/true});
    EXPECT_EQ(resumed.steps.back().loss(), whole.steps.back().loss());
    test::expect_same_bits(resumed.weights, whole.weights, "weights");
    test::expect_same_bits(resumed.exp_avg, whole.exp_avg, "moments");
  }
}

TEST_F(Zero, StartsFromCheckpointWeights) {
  const RunConfig run = config(SmallKind::gpt, DType::bf16);
  test::train_whole(run, {{2, 1}, 2, /*resume=*/false, /*save=*/true});
  const auto saved = newest_intact_checkpoint(run.run.dir, {}).value();
  test::run_device_ranks(4, [&](Communicator& world) {
    BothTrainers both(world, run, 2, /*zero=*/2);
    Trainer &whole = *both.whole.trainer, &shared = *both.shared.trainer;
    for (Trainer* trainer : {&whole, &shared}) {
      Checkpoint checkpoint = Checkpoint::open(saved);
      EXPECT_EQ(trainer->start_from(checkpoint), "");
    }
    for (size_t i = 0; i < whole.parameters().parameters().size(); ++i) {
      const Parameter& all = whole.parameters().parameters()[i];
      const Parameter& mine = shared.parameters().parameters()[i];
      test::expect_same_bits(mine.value(), all.value(), "value");
      const OptimizerShard& own = shared.optimizer_state().of(mine);
      test::expect_same_bits(
          own.master,
          whole.optimizer_state().of(all).master.slice(own.elements.begin, own.elements.end),
          "master");
    }
  });
}

// --- memory

size_t bytes_of(const MemoryPlan& plan, const std::string& what) {
  for (const MemoryPlan::Line& line : plan.lines) {
    if (line.what == what) return line.bytes;
  }
  ADD_FAILURE() << "the plan has no " << what;
  return 0;
}

TEST_F(Zero, MemoryMatchesPlan) {
  const RunConfig run = config(SmallKind::gpt, DType::bf16);
  run_thread_ranks(4, [&](Communicator& world) {
    const BothTrainers both(world, run, 1);
    const Trainer &whole = *both.whole.trainer, &shared = *both.shared.trainer;
    const OptimizerState& state = shared.optimizer_state();
    EXPECT_EQ(bytes_of(shared.memory(), "weights"), state.store().value_bytes());
    EXPECT_EQ(bytes_of(shared.memory(), "gradients"), state.store().grad_bytes());
    EXPECT_EQ(bytes_of(shared.memory(), "master weights"), state.master_bytes());
    EXPECT_EQ(bytes_of(shared.memory(), "moments"), state.moment_bytes());
    EXPECT_EQ(shared.memory().arena_bytes, whole.memory().arena_bytes);
    const size_t padding = state.store().layout().buckets().size() * 4 * 32 * sizeof(float);
    for (const char* what : {"master weights", "moments"}) {
      const size_t all = bytes_of(whole.memory(), what), part = bytes_of(shared.memory(), what);
      EXPECT_GE(4 * part, all);
      EXPECT_LE(4 * part, all + 2 * padding) << "more padding than alignment needs";
    }
    EXPECT_LT(shared.memory().total(), whole.memory().total());
  });
}

TEST_F(Zero, OneDataRankUsesSameMemory) {
  const RunConfig run = config(SmallKind::gpt, DType::bf16);
  run_thread_ranks(2, [&](Communicator& world) {
    const BothTrainers both(world, run, 2);
    const Trainer &whole = *both.whole.trainer, &shared = *both.shared.trainer;
    EXPECT_EQ(shared.memory().total(), whole.memory().total());
    const Parameter& first = shared.parameters().parameters().front();
    EXPECT_EQ(shared.optimizer_state().of(first).elements.size(), first.real_shape().numel());
  });
}

}  // namespace
}  // namespace tessera
