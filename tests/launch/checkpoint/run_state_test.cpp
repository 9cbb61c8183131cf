#include "launch/checkpoint/run_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  std::vector<double> losses;  ///< after steps 10, 20, ...
  int64_t best_step;
  int64_t since_best;
};

TEST(EvaluationHistory, FindsTheBest) {
  const std::vector<Case> cases = {
      {{}, 0, 0},
      {{2.0}, 10, 0},
      {{2.0, 1.0, 1.5}, 20, 1},
      {{2.0, 2.0, 2.0}, 10, 2},  // the first of equals
      {{kNan, 3.0, kNan}, 20, 1},
      {{2.0, kNan, 1.9}, 30, 0},
  };
  for (const Case& given : cases) {
    EvaluationHistory history;
    int64_t step = 0;
    for (const double loss : given.losses) history.add(step += 10, loss);
    EXPECT_EQ(history.best_step, given.best_step);
    EXPECT_EQ(history.since_best, given.since_best);
    EXPECT_FALSE(history.exhausts(0));
    EXPECT_EQ(history.exhausts(1), given.since_best >= 1);
    EXPECT_FALSE(history.exhausts(given.since_best + 1));
  }
}

/// The state as a checkpoint of this step stores it.
RunState read_again(const Json& extra, int64_t step = 9) {
  Manifest manifest;
  manifest.step = step;
  manifest.extra = parse_json(to_text(extra), "extra");
  return read_run_state(manifest);
}

TEST(RunState, IsReadAsItWasWritten) {
  RunState state;
  state.tokenizer = "bytes";
  state.seed = 0;
  state.train_parts = {{93, 1.0 / 3.0}, {46, 2.0 / 3.0}};
  state.labels = "a,b";
  state.truncate = true;
  state.trained_beside_adapters = {"x", "y"};
  state.tokens = int64_t{1} << 60;
  state.gradient_norms = {0.1, 1e300};
  state.noise_scale = {0.1, -0.2};
  state.evaluations = {4, 0.1, 2};
  state.evaluated_step = 8;
  state.sampled_step = 0;
  const Json extra = to_extra(state);
  EXPECT_EQ(to_extra(read_again(extra)), extra);
  EXPECT_EQ(read_again(extra).sampled_step, 0);
  EXPECT_FALSE(extra.contains("by_time"));

  state.evaluations = {4, kNan, 0};
  EXPECT_TRUE(std::isnan(read_again(to_extra(state)).evaluations.best_loss));
}

TEST(RunState, OfAnEarlierVersionOwesNoEvaluation) {
  const RunState state = read_again({{"tokens", 7}}, 6);
  EXPECT_EQ(state.tokens, 7);
  EXPECT_EQ(state.evaluated_step, 6);
  EXPECT_EQ(state.sampled_step, 6);
  EXPECT_EQ(state.evaluations, EvaluationHistory());
}

TEST(RunState, LeavesOutWhatHasAnotherForm) {
  for (const char* damaged :
       {"null", "[1,2]", R"({"best_step":4})", R"([{"samples":93},{"samples":46}])",
        R"([{"samples":"93","share":1},{"samples":46,"share":null}])", "-1", "1.5", "1e300"}) {
    Json extra = Json::object();
    for (const char* key :
         {"tokenizer", "seed", "train_parts", "labels", "truncate", "trained_beside_adapters",
          "tokens", "noise_scale", "evaluations", "evaluated_step"}) {
      extra[key] = parse_json(damaged, "test");
    }
    EXPECT_EQ(to_extra(read_again(extra)), to_extra(read_again(Json::object()))) << damaged;
  }
}

}  // namespace
}  // namespace tessera
