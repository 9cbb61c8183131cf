// Training with products of 8-bit codes (run.precision: fp8).

#include <gtest/gtest.h>

#include <cmath>

#include "launch/config/validate.h"
#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "tests/equivalence/small_run_fixtures.h"
#include "tests/support/runs/device_ranks.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

class Fp8Runs : public test::SmallRuns {
 protected:
  /// Two of four blocks have codes; two tensor ranks have 128 features each.
  RunConfig config(SmallKind kind = SmallKind::gpt) const {
    RunConfig run = SmallRuns::config(kind);
    run.run.precision = Precision::with_fp8();
    run.model.num_layers = 4;
    run.model.hidden_size = 128;
    run.model.num_heads = run.model.num_kv_heads = 4;
    run.model.head_dim = 64;
    run.model.mlp_size = 256;
    run.model.init_stddev = 0.05;
    validate(run, 1);
    return run;
  }

  static double worst_loss_difference(const WholeRun& a, const WholeRun& b, size_t first = 0) {
    double worst = 0.0;
    for (size_t i = first; i < a.steps.size(); ++i) {
      worst = std::max(worst, std::abs(a.steps[i].loss() / b.steps[i].loss() - 1.0));
    }
    return worst;
  }
};

// Codes depend on a row or a block of weights alone. So losses are as near as in bf16. Gradients
// differ by the order of sums, after which a few values have the neighboring code: by up to 2.1
// times the tolerance of `prove` for bf16, seen in a norm of keys.
TEST_F(Fp8Runs, MatchOneRankOnEveryLayout) {
  struct Case {
    Layout layout;
    int64_t zero = 0;
    bool sequence = false;
    SmallKind kind = SmallKind::gpt;
  };
  for (const Case& each :
       {Case{{2, 1}}, Case{{1, 2}, 1}, Case{{1, 4}, 3}, Case{{2, 2}, 2, true},
        Case{{2, 1}, 0, true, SmallKind::bert_pairs}, Case{{2, 2}, 1, true, SmallKind::qwen3}}) {
    SCOPED_TRACE(fmt::format("{} {} zero {} sequence {}", to_string(each.kind),
                             to_string(each.layout), each.zero, each.sequence));
    RunConfig run = config(each.kind);
    const WholeRun whole = test::train_whole(run, {{1, 1}, 5});
    run.parallel.zero = each.zero;
    run.parallel.sequence = each.sequence;
    const WholeRun sharded = test::train_whole(run, {each.layout, 5});
    test::expect_same_bits(sharded.initial_weights, whole.initial_weights, "initial weights");
    EXPECT_LE(worst_loss_difference(sharded, whole), 0x1p-8);
    EXPECT_EQ(mean_difference(sharded.first_gradients, whole.first_gradients,
                              3 * 4 * std::sqrt(10.0) * 0x1p-8),
              std::nullopt);
  }
}

TEST_F(Fp8Runs, ResumeAndRecomputeWithTheSameBits) {
  constexpr Layout kLayout = {2, 2};
  RunConfig run = config();
  run.parallel.zero = 1;
  const WholeRun whole = test::train_whole(run, {kLayout, 6});
  test::train_whole(run, {kLayout, 3, /*resume=*/false, /*save=*/true});
  const WholeRun resumed = test::train_whole(run, {kLayout, 3, /*resume=*/true});
  test::expect_same_bits(resumed.weights, whole.weights, "weights");
  test::expect_same_bits(resumed.exp_avg, whole.exp_avg, "moments");
  EXPECT_EQ(resumed.evaluation.losses.total(), whole.evaluation.losses.total());
  for (const Recompute recompute : {Recompute::activation, Recompute::block}) {
    // In bf16, a GPU applies GELU to sums that are not rounded.
    if (recompute == Recompute::activation && test::on_gpu()) continue;
    run.train.recompute = recompute;
    const WholeRun again = test::train_whole(run, {kLayout, 6});
    test::expect_same_bits(again.weights, whole.weights, "weights");
  }
}

// A checkpoint does not know how it was trained, and an evaluation uses the codes of training.
TEST_F(Fp8Runs, EvaluateWithTheCodesOfTraining) {
  RunConfig run = config();
  const WholeRun saved = test::train_whole(run, {{1, 1}, 2, /*resume=*/false, /*save=*/true});
  const WholeRun loaded = test::train_whole(run, {{1, 1}, 0, /*resume=*/true});
  EXPECT_EQ(loaded.evaluation.losses.total(), saved.evaluation.losses.total());
  run.run.precision = DType::bf16;
  const WholeRun in_bf16 = test::train_whole(run, {{1, 1}, 0, /*resume=*/true});
  test::expect_same_bits(in_bf16.weights, saved.weights, "weights");
  EXPECT_NE(in_bf16.evaluation.losses.total(), saved.evaluation.losses.total());
  EXPECT_NEAR(in_bf16.evaluation.losses.total() / saved.evaluation.losses.total(), 1.0, 0.01);
}

TEST_F(Fp8Runs, StayNearBf16For200Steps) {
  constexpr size_t kSteps = 200, kLast = 50;
  RunConfig run = config();
  run.optimizer.lr = 2e-3;
  run.train.steps = kSteps;
  const WholeRun codes = test::train_whole(run, {{1, 1}, kSteps});
  run.run.precision = DType::bf16;
  const WholeRun without = test::train_whole(run, {{1, 1}, kSteps});
  double of_codes = 0.0, of_bf16 = 0.0;
  for (size_t i = kSteps - kLast; i < kSteps; ++i) {
    of_codes += codes.steps[i].loss() / kLast;
    of_bf16 += without.steps[i].loss() / kLast;
  }
  RecordProperty("fp8", fmt::format("{:.5f}", of_codes));
  RecordProperty("bf16", fmt::format("{:.5f}", of_bf16));
  RecordProperty("worst", fmt::format("{:.5f}", worst_loss_difference(codes, without)));
  EXPECT_LT(of_bf16, 0.9 * without.steps.front().loss()) << "the run learns too little";
  EXPECT_NE(of_codes, of_bf16);
  EXPECT_NEAR(of_codes / of_bf16, 1.0, 0.01);
  EXPECT_LE(worst_loss_difference(codes, without), 0.03);
}

// Codes are in the arena, which a run of the largest batch must fit exactly.
TEST_F(Fp8Runs, MemoryMatchesPlan) {
  RunConfig run = config();
  const TrainingData data = open_training_data(run);
  const auto arena_of = [&](const RunConfig& each) {
    size_t planned = 0;
    test::run_device_ranks(2, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, each.grid_shape());
      Trainer trainer(each, groups, data, test::test_device());
      for (int step = 0; step < 2; ++step) trainer.step();
      if (world.rank() == 0) planned = trainer.memory().arena_bytes;
    });
    return planned;
  };
  run.parallel.tensor = 2;
  const size_t codes = arena_of(run);
  run.run.precision = DType::bf16;
  EXPECT_GT(codes, arena_of(run));
}

}  // namespace
}  // namespace tessera
