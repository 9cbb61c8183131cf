#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::Layout;
using test::WholeRun;

constexpr int64_t kSteps = 20;

/// fp32 sums in a different order differ by about the square root of their length (up to a few
/// hundred here) times 2⁻²⁴ of their magnitude, once per layer and step; 20 training steps carry
/// these differences forward.
constexpr double kTolerance = 2e-5;

class Layouts : public testing::TestWithParam<Layout> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TestFolder();
    test::write_small_data(*folder_);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static RunConfig config() { return test::small_run(*folder_, "run"); }

  static test::TestFolder* folder_;
};

test::TestFolder* Layouts::folder_ = nullptr;

TEST_P(Layouts, ShardedMatchesUnsharded) {
  const WholeRun whole = test::train_whole(config(), {{1, 1}, kSteps});
  const WholeRun sharded = test::train_whole(config(), {GetParam(), kSteps});
  test::expect_same_bits(sharded.initial_weights, whole.initial_weights, "initial weights");
  test::expect_equal(sharded, whole, kTolerance);
  EXPECT_LT(whole.steps.back().loss(), 0.95 * whole.steps.front().loss()) << "nothing was learned";
}

TEST_P(Layouts, DropoutDropsTheSameElements) {
  RunConfig with_dropout = config();
  with_dropout.model.dropout = 0.2;
  with_dropout.model.attention_dropout = 0.3;
  const WholeRun whole = test::train_whole(with_dropout, {{1, 1}, 5});
  const WholeRun sharded = test::train_whole(with_dropout, {GetParam(), 5});
  test::expect_equal(sharded, whole, kTolerance);
  const WholeRun without = test::train_whole(config(), {{1, 1}, 1});
  EXPECT_NE(whole.steps[0].loss(), without.steps[0].loss()) << "nothing was dropped";
}

TEST_P(Layouts, ShardedMatchesUnshardedInBf16) {
  RunConfig bf16 = config();
  bf16.run.precision = DType::bf16;
  const WholeRun whole = test::train_whole(bf16, {{1, 1}, 5});
  const WholeRun sharded = test::train_whole(bf16, {GetParam(), 5});
  test::expect_same_bits(sharded.initial_weights, whole.initial_weights, "initial weights");
  // Each activation is rounded to 2⁻⁸ relative; the mean over the batch averages this out.
  for (size_t i = 0; i < whole.steps.size(); ++i) {
    EXPECT_NEAR(sharded.steps[i].loss(), whole.steps[i].loss(), 0x1p-8 * whole.steps[i].loss());
  }
  // A gradient has about ten independent roundings of 2⁻⁸, so its error is about √10 × 2⁻⁸, and the
  // largest of thousands of elements is several times that.
  test::expect_close(sharded.first_gradients, whole.first_gradients, 8 * std::sqrt(10.0) * 0x1p-8,
                     "gradient");
}

INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         testing::Values(Layout{1, 2}, Layout{1, 4}, Layout{2, 1}, Layout{2, 2},
                                         Layout{2, 4}, Layout{4, 1}, Layout{4, 2}, Layout{4, 4}),
                         [](const auto& instance) {
                           return fmt::format("tensor{}_data{}", instance.param.tensor,
                                              instance.param.data);
                         });

class Microbatches : public Layouts {};

TEST_F(Microbatches, MicroBatchSizeDoesNotMatter) {
  RunConfig one = config();
  one.batch.micro = 8;
  one.model.dropout = 0.2;
  RunConfig eight = one;
  eight.batch.micro = 1;
  test::expect_equal(test::train_whole(eight, {{1, 1}, 5}), test::train_whole(one, {{1, 1}, 5}),
                     kTolerance);
}

TEST_F(Microbatches, RunsAreDeterministic) {
  const WholeRun first = test::train_whole(config(), {{2, 2}, 5});
  const WholeRun second = test::train_whole(config(), {{2, 2}, 5});
  test::expect_same_bits(first.weights, second.weights, "weights");
}

}  // namespace
}  // namespace tessera
