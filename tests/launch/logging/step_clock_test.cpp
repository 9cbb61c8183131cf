#include <gtest/gtest.h>

#include "launch/logging/console.h"

namespace tessera {
namespace {

StepResult step_of(double seconds) {
  StepResult result;
  result.steps = 1;
  result.seconds = seconds;
  return result;
}

TEST(StepClock, EstimatesFromMeanStep) {
  StepClock clock;
  for (int i = 0; i < 10; ++i) clock.add(step_of(0.5));
  EXPECT_DOUBLE_EQ(*clock.seconds_left(100), 50.0);
}

TEST(StepClock, LeavesOutTheFirstSlowSteps) {
  StepClock clock;
  for (const double seconds : {8.0, 2.0}) clock.add(step_of(seconds));
  EXPECT_FALSE(clock.seconds_left(100));
  for (int i = 0; i < 2; ++i) clock.add(step_of(0.5));
  EXPECT_DOUBLE_EQ(*clock.seconds_left(100), 50.0);
}

TEST(StepClock, EstimatesLongStepsFromTheFirst) {
  StepClock clock;
  clock.add(step_of(300.0));
  EXPECT_EQ(clock.seconds_left(10), 3000.0);
}

TEST(StepClock, PauseCountsLittle) {
  StepClock clock;
  for (int i = 0; i < 200; ++i) clock.add(step_of(0.5));
  clock.add(step_of(3600.0));
  EXPECT_LT(*clock.seconds_left(100), 60.0);
}

TEST(StepClock, FollowsSlowerSteps) {
  StepClock clock;
  for (int i = 0; i < 200; ++i) clock.add(step_of(0.5));
  for (int i = 0; i < 1000; ++i) clock.add(step_of(50.0));
  EXPECT_NEAR(*clock.seconds_left(1), 50.0, 1.0);
}

}  // namespace
}  // namespace tessera
