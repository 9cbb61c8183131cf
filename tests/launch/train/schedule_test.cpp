#include <gtest/gtest.h>

#include <numbers>

#include "launch/train/optimizer/lr_schedule.h"

namespace tessera {
namespace {

OptimizerSection settings(LrSchedule schedule) {
  OptimizerSection optimizer;
  optimizer.lr = 1.0;
  optimizer.min_lr = 0.1;
  optimizer.schedule = schedule;
  optimizer.warmup_steps = 10;
  return optimizer;
}

TEST(LearningRate, WarmsUpLinearlyFromFirstStep) {
  for (const auto schedule : {LrSchedule::cosine, LrSchedule::linear, LrSchedule::constant}) {
    EXPECT_DOUBLE_EQ(learning_rate(settings(schedule), 0, 100), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(settings(schedule), 4, 100), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(settings(schedule), 9, 100), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(settings(schedule), 10, 100), 1.0);
  }
}

TEST(LearningRate, ReachesMinimumAtLastStep) {
  EXPECT_DOUBLE_EQ(learning_rate(settings(LrSchedule::cosine), 99, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(settings(LrSchedule::linear), 99, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(settings(LrSchedule::constant), 99, 100), 1.0);
}

TEST(LearningRate, IsHalfwayAtMidpoint) {
  // Steps 10 to 110: the middle is 60.
  EXPECT_NEAR(learning_rate(settings(LrSchedule::cosine), 60, 111), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(settings(LrSchedule::linear), 60, 111), 0.55, 1e-12);
}

TEST(LearningRate, HandlesShortRuns) {
  OptimizerSection optimizer = settings(LrSchedule::cosine);
  optimizer.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 0, 1), 1.0);
  optimizer.warmup_steps = 1;
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 0, 1), 1.0);
}

TEST(LearningRate, StableTrunkDecaysInTheLastSteps) {
  OptimizerSection optimizer = settings(LrSchedule::warmup_stable_decay);
  optimizer.decay_steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 4, 100), 0.5);
  // A longer run has the same trunk.
  for (const int64_t step : {10, 50, 79}) {
    EXPECT_DOUBLE_EQ(learning_rate(optimizer, step, 100), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(optimizer, step, 1000), 1.0);
  }
  // 5 of 20 steps of the decay are done.
  const double quarter[] = {0.75, 0.5 + 0.25 * std::numbers::sqrt2, 0.5};
  for (const auto style : {DecayStyle::linear, DecayStyle::cosine, DecayStyle::minus_sqrt}) {
    optimizer.decay_style = style;
    EXPECT_NEAR(learning_rate(optimizer, 84, 100), 0.1 + 0.9 * quarter[static_cast<int>(style)],
                1e-12);
    EXPECT_NEAR(learning_rate(optimizer, 99, 100), 0.1, 1e-12);
  }
  optimizer.decay_steps = 0;  // a tenth
  EXPECT_LT(learning_rate(optimizer, 90, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 89, 100), 1.0);
}

TEST(LearningRate, InverseSquareRootIgnoresTheLengthOfTheRun) {
  OptimizerSection optimizer = settings(LrSchedule::inverse_sqrt);
  for (const int64_t steps : {100, 1000}) {
    EXPECT_DOUBLE_EQ(learning_rate(optimizer, 9, steps), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(optimizer, 39, steps), 0.5);
  }
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 99999, 100000), 0.1);  // min_lr
  optimizer.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 3, 100), 0.5);
}

TEST(LearningRate, PolynomialRaisesLinearDecay) {
  OptimizerSection optimizer = settings(LrSchedule::polynomial);
  optimizer.power = 2.0;
  EXPECT_NEAR(learning_rate(optimizer, 60, 111), 0.1 + 0.9 * 0.25, 1e-12);
  EXPECT_NEAR(learning_rate(optimizer, 110, 111), 0.1, 1e-12);
}

}  // namespace
}  // namespace tessera
