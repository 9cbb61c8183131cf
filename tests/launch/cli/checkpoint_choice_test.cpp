#include "launch/cli/support/checkpoint_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/huggingface/fixture.h"

namespace tessera {
namespace {

using namespace testing_interop;

class CheckpointChoiceOfRun : public HuggingFaceFolder {
 protected:
  std::string chosen(bool best, std::optional<int64_t> step) const {
    return resolve(CheckpointChoice{folder_ / "run", best, step}).filename().string();
  }
};

TEST_F(CheckpointChoiceOfRun, IsTheNewestTheBestOrThatOfAStep) {
  const fs::path run = save_model("run", small_gpt());
  const fs::path steps = run / "checkpoints";
  for (const char* name : {"step_00000001", "step_00000002"}) {
    fs::copy(steps / "step_00000003", steps / name, fs::copy_options::recursive);
  }
  EXPECT_EQ(chosen(false, {}), "step_00000003");
  EXPECT_EQ(chosen(false, 1), "step_00000001");
  expect_error([&] { chosen(false, 7); }, {"--step", "no checkpoint of step 7", "one of 1, 2, 3"});
  expect_error([&] { chosen(true, {}); }, {"--best", "no evaluation"});
  const auto evaluated = [&](const char* losses) { write_file(run / "metrics.jsonl", losses); };
  evaluated(
      "{\"step\": 1, \"eval_loss\": 3.0}\n{\"step\": 2, \"eval_loss\": 2.0}\n"
      "{\"step\": 3, \"eval_loss\": 2.5}\n");
  EXPECT_EQ(chosen(true, {}), "step_00000002");
  // That of the averaged weights decides, as for checkpoint.keep_best.
  evaluated(
      "{\"step\": 1, \"eval_loss\": 3.0, \"eval_ema_loss\": 1.0}\n"
      "{\"step\": 2, \"eval_loss\": 2.0, \"eval_ema_loss\": 1.5}\n");
  EXPECT_EQ(chosen(true, {}), "step_00000001");
  evaluated("{\"step\": 4, \"eval_loss\": 1.0}\n{\"step\": 2, \"eval_loss\": 2.0}\n");
  expect_error([&] { chosen(true, {}); }, {"step 4, which has the lowest evaluation loss"});
  expect_error(
      [&] {
        resolve({(steps / "step_00000001").string(), true, {}});
      },
      {"is one checkpoint"});
}

}  // namespace
}  // namespace tessera
