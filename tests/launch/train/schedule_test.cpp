#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tessera
