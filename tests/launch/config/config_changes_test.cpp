#include "launch/config/config_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ConfigChanges, NamesEachKeyWithBothValues) {
  RunConfig before;
  before.train.steps = 120;
  RunConfig now = before;
  EXPECT_TRUE(config_changes(before, now).empty());
  now.train.steps = 2000;
  now.optimizer.lr = 0.5;
  now.data.eval = "held/out";
  EXPECT_THAT(config_changes(before, now),
              testing::ElementsAre("data.eval: null -> \"held/out\"", "train.steps: 120 -> 2000",
                                   "optimizer.lr: 0.001 -> 0.5"));
}

}  // namespace
}  // namespace tessera
