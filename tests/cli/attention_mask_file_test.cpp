#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/memory.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/support/text/json.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

/// Runs with a mask file: head h of 4 sees its own token and each (h + 2)-nd one before it.
class CliAttentionMaskFile : public SmallRun {
 protected:
  CliAttentionMaskFile() { write_mask(2); }

  void write_mask(int64_t step) const {
    constexpr int64_t kHeads = 4, kLength = 16;
    const OwnedTensor visible({kHeads, kLength, kLength}, DType::u8);
    for (int64_t i = 0; i < visible.tensor.numel(); ++i) {
      const int64_t h = i / kLength / kLength, t = i / kLength % kLength, s = i % kLength;
      visible.tensor.data<uint8_t>()[i] = (t - s) % (h + step) == 0 ? 1 : 0;
    }
    std::ofstream(path("mask.safetensors"), std::ios::binary)
        << safetensors_bytes("visible", visible.tensor);
  }

  std::string key() const {
    return "model.attention_mask_file=" + path("mask.safetensors").string();
  }
  Outcome command(const Arguments& arguments, int ranks = kAlone) const {
    return run(tessera(ranks, arguments));
  }
};

TEST_F(CliAttentionMaskFile, TravelsWithTheRun) {
  const Outcome trained = run_train(2, "run", {key(), "parallel.tensor=2", "train.steps=6"});
  expect_success(trained);
  EXPECT_THAT(trained.output, HasSubstr("attention mask"));  // a line of memory
  expect_success(run_train(kAlone, "free", {"train.steps=6"}));
  EXPECT_NE(losses("run"), losses("free"));
  expect_success(run_train(kAlone, "alone", {key(), "train.steps=6"}));
  expect_near(losses("run"), losses("alone"));

  fs::rename(path("run"), path("moved"));
  fs::remove(path("mask.safetensors"));
  const std::string moved = path("moved").string();
  for (const Arguments& arguments :
       {Arguments{"eval", moved, "--part", "train"},
        Arguments{"generate", moved, "--prompt", "3 times"}, Arguments{"verify", moved},
        Arguments{"inspect", moved},
        Arguments{"attention", moved, "--text", "3 times", "--output", path("page").string()}}) {
    SCOPED_TRACE(arguments.front());
    const Outcome alone = command(arguments);
    expect_success(alone);
  }
  const Arguments greedy = {"generate",      moved, "--prompt",     "3 times",
                            "--temperature", "0",   "--max-tokens", "40"};
  EXPECT_EQ(command(greedy, 2).output, command(greedy).output);
  expect_refused(command({"export", moved, "--to", path("out").string()}),
                 {"model.attention_mask_file is set"});
}

TEST_F(CliAttentionMaskFile, ResumedRunsKeepTheirMask) {
  expect_success(run_train(kAlone, "run", {key(), "train.steps=4"}));
  expect_success(run_train(2, "run", {key(), "train.steps=6"}));
  write_mask(3);
  expect_refused(run_train(2, "run", {key(), "train.steps=8"}), {"attention_mask_file"});
  expect_refused(run_train(kAlone, "run", {"train.steps=8"}), {"attention_mask_file"});
  fs::remove(path("mask.safetensors"));
  expect_refused(run_train(2, "run", {key(), "train.steps=8"}),
                 {"model.attention_mask_file: ", "No such file"});
  // The checkpoint's copy is such a file.
  const std::string copy =
      (path("run/checkpoints") / checkpoints("run").back() / "attention_mask.safetensors").string();
  expect_success(run_train(2, "run", {"model.attention_mask_file=" + copy, "train.steps=8"}));
  // A run that takes its model from a checkpoint takes the mask, too.
  const Outcome tuned =
      run_train(kAlone, "tuned", {"checkpoint.from=" + path("run").string(), "train.steps=4"});
  expect_success(tuned);
  EXPECT_THAT(read_text(path("tuned/config.yaml")),
              HasSubstr("step_00000008/attention_mask.safetensors"));
}

TEST_F(CliAttentionMaskFile, IsDrawnAndPlanned) {
  const std::string config = path("config.yaml").string();
  const Outcome drawn = command({"mask", config, "--set", key()});
  expect_success(drawn);
  EXPECT_THAT(drawn.output,
              HasSubstr("all 2 layers, head 1: causal, the mask of model.attention_mask_file"));
  const Outcome json = command({"mask", config, "--set", key(), "--json"});
  EXPECT_EQ(Json::parse(json.output)["layers"].size(), 4u);
  const std::string page = path("mask.html").string();
  expect_success(command({"mask", config, "--set", key(), "--html", page}));
  EXPECT_THAT(read_text(page), HasSubstr("all 2 layers, head 3: causal"));
  const Outcome plan = command({"plan", config, "--ranks", "2", "--set", key()});
  expect_success(plan);
  EXPECT_THAT(plan.output, HasSubstr("attention mask"));
  EXPECT_THAT(command({"plan", config, "--ranks", "2"}).output, Not(HasSubstr("attention mask")));
}

}  // namespace
}  // namespace tessera::test
