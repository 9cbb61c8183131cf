// Gradients that are summed over the data ranks in bf16.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/equivalence/small_run_fixtures.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

constexpr int64_t kSteps = 4;

class GradReduce : public testing::Test {
 protected:
  GradReduce() { test::write_small_data(folder_); }

  RunConfig config(DType dtype, int64_t zero, SmallKind kind = SmallKind::gpt) const {
    RunConfig config = test::small_run(folder_, "run", kind);
    config.parallel.grad_reduce_dtype = dtype;
    config.parallel.zero = zero;
    return config;
  }

  test::TestFolder folder_;
};

/// How far gradients may be from those of one rank in fp32, relative to the root mean square of a
/// parameter's gradient. Half a unit in the last place of bf16 is 2⁻⁹ of a number. A rank's
/// gradient is its share of the mean and noise of its own, which is larger than the mean: 8 units
/// for the largest element of the largest rank, and one for the sum.
constexpr double kGradientTolerance = 0x1p-5;

class GradReduceOnLayouts : public GradReduce, public testing::WithParamInterface<Layout> {};

// train_whole() also expects the same bits on all ranks that hold a copy.
TEST_P(GradReduceOnLayouts, InBf16MatchesOneRank) {
  for (const int64_t zero : {0, 1, 3}) {
    const WholeRun one = test::train_whole(config(DType::f32, 0), {{1, 1}, kSteps});
    const WholeRun fp32 = test::train_whole(config(DType::f32, zero), {GetParam(), kSteps});
    const WholeRun bf16 = test::train_whole(config(DType::bf16, zero), {GetParam(), kSteps});
    EXPECT_NE(bf16.first_gradients, fp32.first_gradients) << "nothing was rounded";
    test::expect_close(bf16.first_gradients, one.first_gradients, kGradientTolerance, "gradients");
    for (size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_NEAR(bf16.steps[i].loss(), one.steps[i].loss(), 1e-3 * one.steps[i].loss());
      EXPECT_NEAR(bf16.steps[i].grad_norm, one.steps[i].grad_norm, 0x1p-7 * one.steps[i].grad_norm);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GradReduceOnLayouts,
                         testing::Values(Layout{1, 2}, Layout{2, 2}, Layout{1, 4}),
                         [](const auto& instance) {
                           return fmt::format("tensor{}_data{}", instance.param.tensor,
                                              instance.param.data);
                         });

// Both sum the ranks' gradients in rank order, and round once.
TEST_F(GradReduce, ZeroMatchesReplicatedOptimizer) {
  const auto train = [&](int64_t zero) {
    RunConfig run = config(DType::bf16, zero, SmallKind::bert_pairs);
    run.run.precision = DType::bf16;
    return test::train_whole(run, {{2, 2}, kSteps});
  };
  const WholeRun whole = train(0), shared = train(1);
  test::expect_same_bits(shared.first_gradients, whole.first_gradients, "gradients");
  test::expect_same_bits(shared.weights, whole.weights, "weights");
}

TEST_F(GradReduce, ResumesBitExactly) {
  const RunConfig run = config(DType::bf16, 1);
  const WholeRun whole = test::train_whole(run, {{1, 2}, 2 * kSteps});
  std::filesystem::remove_all(run.run.dir);
  test::train_whole(run, {{1, 2}, kSteps, /*resume=*/false, /*save=*/true});
  const WholeRun resumed = test::train_whole(run, {{1, 2}, kSteps, /*resume=*/true});
  test::expect_same_bits(resumed.weights, whole.weights, "weights");
  test::expect_same_bits(resumed.exp_avg, whole.exp_avg, "moments");
}

}  // namespace
}  // namespace tessera
