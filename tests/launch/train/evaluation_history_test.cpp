#include "launch/train/evaluation_history.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <vector>

#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  std::vector<double> losses;  ///< after steps 10, 20, ...
  std::optional<int64_t> best_step;
  int64_t since_best;
};

TEST(EvaluationHistory, FindsTheBest) {
  const std::vector<Case> cases = {
      {{}, std::nullopt, 0},      {{2.0}, 10, 0},
      {{2.0, 1.0, 1.5}, 20, 1},   {{2.0, 2.0, 2.0}, 10, 2},  // the first of equals
      {{kNan, 3.0, kNan}, 20, 1}, {{2.0, kNan, 1.9}, 30, 0},
  };
  for (const Case& given : cases) {
    EvaluationHistory history;
    int64_t step = 0;
    for (const double loss : given.losses) history.add({step += 10, loss});
    EXPECT_EQ(history.best_step(), given.best_step);
    EXPECT_EQ(history.since_best(), given.since_best);
    EXPECT_FALSE(history.exhausts(0));
    EXPECT_EQ(history.exhausts(1), given.since_best >= 1);
    EXPECT_FALSE(history.exhausts(given.since_best + 1));
    EXPECT_EQ(history.has(10), !given.losses.empty());
    EXPECT_FALSE(history.has(15));
  }
}

TEST(EvaluationHistory, IsReadFromMetricsForAllRanks) {
  const test::TestFolder folder;
  std::ofstream(folder.path() / "metrics.jsonl") << R"({"step":2,"eval_loss":4.5}
{"step":3,"loss":1.0}
{"step":4,"eval_loss":null}
{"step":6,"eval_loss":4.25}
{"step":8,"eval_loss":4.0}
{"step":8,"eval_l)";
  RunConfig config, none;
  config.run.dir = folder.path();
  none.run.dir = folder / "none";
  run_thread_ranks(2, [&](Communicator& world) {
    const auto until_6 = EvaluationHistory::load(config, 6, world);
    EXPECT_EQ(until_6.best_step(), 6);
    EXPECT_TRUE(until_6.has(4));
    EXPECT_FALSE(until_6.has(8));
    EXPECT_EQ(EvaluationHistory::load(config, 5, world).best_step(), 2);
    EXPECT_EQ(EvaluationHistory::load(none, 9, world).best_step(), std::nullopt);
  });
}

// The average began after step 2.
TEST(EvaluationHistory, ComparesAveragedWeightsIfTheRunHasThem) {
  const test::TestFolder folder;
  std::ofstream(folder.path() / "metrics.jsonl") << R"({"step":2,"eval_loss":4.5}
{"step":4,"eval_loss":2.5,"eval_ema_loss":4.25}
{"step":6,"eval_loss":3.5,"eval_ema_loss":3.25}
{"step":8,"eval_loss":3.0,"eval_ema_loss":null}
)";
  RunConfig config;
  config.run.dir = folder.path();
  const auto self = make_self_communicator();
  EXPECT_EQ(EvaluationHistory::load(config, 8, *self).best_step(), 4);
  config.optimizer.ema_decay = 0.9;
  EXPECT_EQ(EvaluationHistory::load(config, 8, *self).best_step(), 6);
}

}  // namespace
}  // namespace tessera
