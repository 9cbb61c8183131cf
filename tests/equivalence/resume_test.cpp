#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

constexpr int64_t kBefore = 6;
constexpr int64_t kAfter = 6;

class Resume : public testing::Test {
 protected:
  // So few tokens that the runs end in their third epoch.
  Resume() { test::write_small_data(folder_, 600); }

  RunConfig config(const std::string& run, SmallKind kind = SmallKind::gpt) const {
    RunConfig config = test::small_run(folder_, run, kind);
    config.model.dropout = 0.1;
    config.model.attention_dropout = 0.1;
    return config;
  }

  /// Trains kBefore steps on one layout, saves, and continues for kAfter steps on another.
  WholeRun interrupted(const RunConfig& config, Layout first, Layout second) const {
    test::train_whole(config, {first, kBefore, /*resume=*/false, /*save=*/true});
    return test::train_whole(config, {second, kAfter, /*resume=*/true});
  }

  /// Expects a run resumed after kBefore steps to equal the uninterrupted one.
  static void expect_rest(const WholeRun& resumed, const WholeRun& uninterrupted) {
    // The tolerance between layouts, as in layouts_test.cpp.
    constexpr double kTolerance = 2e-5;
    for (size_t i = 0; i < kAfter; ++i) {
      const StepResult& expected = uninterrupted.steps[kBefore + i];
      EXPECT_NEAR(resumed.steps[i].loss(), expected.loss(), kTolerance * expected.loss());
    }
    test::expect_close(resumed.weights, uninterrupted.weights, 10 * kTolerance, "weights");
    test::expect_close(resumed.exp_avg, uninterrupted.exp_avg, 50 * kTolerance, "moments");
  }

  test::TestFolder folder_;
};

TEST_F(Resume, OnSameLayoutIsBitExact) {
  for (const Layout layout : {Layout{1, 1}, Layout{2, 2}, Layout{4, 1}}) {
    SCOPED_TRACE(to_string(layout));
    const RunConfig run = config(fmt::format("run{}x{}", layout.tensor, layout.data));
    const WholeRun uninterrupted = test::train_whole(run, {layout, kBefore + kAfter});
    const WholeRun resumed = interrupted(run, layout, layout);
    for (size_t i = 0; i < kAfter; ++i) {
      EXPECT_EQ(resumed.steps[i].step, uninterrupted.steps[kBefore + i].step);
      EXPECT_EQ(resumed.steps[i].loss(), uninterrupted.steps[kBefore + i].loss());
      EXPECT_EQ(resumed.steps[i].lr, uninterrupted.steps[kBefore + i].lr);
    }
    test::expect_same_bits(resumed.weights, uninterrupted.weights, "weights");
    test::expect_same_bits(resumed.exp_avg, uninterrupted.exp_avg, "moments");
  }
}

TEST_F(Resume, InBf16IsBitExact) {
  RunConfig run = config("bf16");
  run.run.precision = DType::bf16;
  const WholeRun uninterrupted = test::train_whole(run, {{2, 1}, kBefore + kAfter});
  const WholeRun resumed = interrupted(run, {2, 1}, {2, 1});
  test::expect_same_bits(resumed.weights, uninterrupted.weights, "weights");
}

TEST_F(Resume, WithStochasticRoundingIsBitExact) {
  RunConfig run = config("rounding");
  run.run.precision = DType::bf16;
  run.optimizer.stochastic_rounding = true;
  for (const Layout layout : {Layout{2, 1}, Layout{1, 2}}) {
    run.run.dir += 'x';
    const WholeRun uninterrupted = test::train_whole(run, {layout, kBefore + kAfter});
    const WholeRun resumed = interrupted(run, layout, layout);
    test::expect_same_bits(resumed.weights, uninterrupted.weights, "weights");
    for (size_t i = 0; i < kAfter; ++i) {
      EXPECT_EQ(resumed.steps[i].loss(), uninterrupted.steps[kBefore + i].loss());
    }
  }
}

class ResumeKind : public Resume, public testing::WithParamInterface<SmallKind> {};

TEST_P(ResumeKind, OnSameLayoutIsBitExact) {
  constexpr Layout kLayout = {2, 2};
  const RunConfig run = config("run", GetParam());
  const WholeRun uninterrupted = test::train_whole(run, {kLayout, kBefore + kAfter});
  const WholeRun resumed = interrupted(run, kLayout, kLayout);
  test::expect_same_bits(resumed.weights, uninterrupted.weights, "weights");
  test::expect_same_bits(resumed.exp_avg, uninterrupted.exp_avg, "moments");
  EXPECT_EQ(resumed.evaluation.losses.total(), uninterrupted.evaluation.losses.total());
}

// Each layout saves once and resumes once.
TEST_P(ResumeKind, OnOtherLayoutMatchesUninterruptedRun) {
  const RunConfig run = config("run", GetParam());
  const WholeRun uninterrupted = test::train_whole(run, {{1, 1}, kBefore + kAfter});
  const Layout layouts[] = {{2, 2}, {1, 4}, {4, 1}, {2, 2}};
  for (size_t i = 0; i + 1 < std::size(layouts); ++i) {
    SCOPED_TRACE(to_string(layouts[i]) + " to " + to_string(layouts[i + 1]));
    std::filesystem::remove_all(run.run.dir);
    expect_rest(interrupted(run, layouts[i], layouts[i + 1]), uninterrupted);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ResumeKind, testing::ValuesIn(test::kOtherSmallKinds),
                         [](const auto& instance) { return to_string(instance.param); });

struct Change {
  Layout from, to;
};

class ResumeElsewhere : public Resume, public testing::WithParamInterface<Change> {};

TEST_P(ResumeElsewhere, MatchesUninterruptedRun) {
  const RunConfig run = config("run");
  const WholeRun uninterrupted = test::train_whole(run, {{1, 1}, kBefore + kAfter});
  expect_rest(interrupted(run, GetParam().from, GetParam().to), uninterrupted);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ResumeElsewhere,
                         testing::Values(Change{{2, 2}, {1, 1}}, Change{{2, 2}, {4, 1}},
                                         Change{{2, 2}, {1, 4}}, Change{{1, 1}, {2, 2}},
                                         Change{{4, 1}, {2, 2}}, Change{{1, 4}, {2, 2}},
                                         Change{{4, 1}, {1, 4}}, Change{{1, 1}, {4, 4}}),
                         [](const auto& instance) {
                           const Change& change = instance.param;
                           return fmt::format("{}x{}_to_{}x{}", change.from.tensor,
                                              change.from.data, change.to.tensor, change.to.data);
                         });

TEST_F(Resume, LoadsSameStateOnEveryLayout) {
  const RunConfig run = config("run");
  const WholeRun saved = test::train_whole(run, {{2, 2}, kBefore, false, true});
  for (const Layout layout : {Layout{1, 1}, Layout{4, 1}, Layout{1, 4}, Layout{4, 4}}) {
    SCOPED_TRACE(to_string(layout));
    const WholeRun loaded = test::train_whole(run, {layout, 0, /*resume=*/true});
    test::expect_same_bits(loaded.weights, saved.weights, "weights");
    test::expect_same_bits(loaded.exp_avg, saved.exp_avg, "moments");
  }
}

}  // namespace
}  // namespace tessera
