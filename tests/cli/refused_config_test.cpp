#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>

#include "core/cuda/runtime.h"
#include "core/device.h"
#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

struct BadConfig {
  const char* name;
  int ranks;  ///< 0: runs without mpirun and on 2 ranks
  Arguments overrides;
  Arguments facts;
};

// How GoogleTest prints a case.
void PrintTo(const BadConfig& bad, std::ostream* out) { *out << bad.name; }

class CliBadConfig : public SmallRun, public testing::WithParamInterface<BadConfig> {};

TEST_P(CliBadConfig, ReportsErrorOnce) {
  const BadConfig& bad = GetParam();
  for (const int ranks : bad.ranks > 0 ? std::vector{bad.ranks} : std::vector{kAlone, 2}) {
    expect_refused(run_train(ranks, "run", bad.overrides), bad.facts);
    EXPECT_FALSE(std::filesystem::exists(path("run"))) << "a refused run left its folder";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CliBadConfig,
    testing::Values(
        BadConfig{"MisspeltKey",
                  0,
                  {"model.num_layer=2"},
                  {"unknown key 'model.num_layer'", "did you mean 'model.num_layers'?"}},
        BadConfig{"NoValue", 0, {"model"}, {"--set model: must have the form section.key=value"}},
        BadConfig{"WrongType", 0, {"train.steps=many"}, {"train.steps", "many"}},
        BadConfig{"WrongRange", 0, {"optimizer.lr=-1"}, {"optimizer.lr", "-1"}},
        BadConfig{"HiddenSizeByHeads",
                  0,
                  {"model.num_heads=3"},
                  {"model.hidden_size is 32, but model.num_heads is 3: ", "(30 or 33)"}},
        BadConfig{"MoreTensorRanksThanHeads",
                  2,
                  {"parallel.tensor=2", "model.num_heads=1"},
                  {"parallel.tensor is 2, but model.num_heads is 1: ", "at most 1"}},
        BadConfig{"RanksByTensorRanks",
                  3,
                  {"parallel.tensor=2"},
                  {"parallel.tensor is 2, but the run has 3 ranks: ", "multiple of 2 ranks"}},
        BadConfig{"BatchByDataRanks",
                  3,
                  {},
                  {"batch.global is 8, but batch.micro × data ranks = 2 × 3 = 6", "(6 or 12)"}},
        BadConfig{
            "VocabularyTooSmall",
            0,
            {"model.vocab_size=256"},
            {"model.vocab_size is 256, but data.tokenizer is auto (byte), which has 257 tokens"}},
        BadConfig{"NoEvaluationData", 0, {"eval.interval=5"}, {"there is no evaluation data"}},
        BadConfig{
            "InvalidStopStep", 0, {"--stop-at=-3"}, {"--stop-at: '-3' is not a whole number"}}),
    [](const auto& instance) { return std::string(instance.param.name); });

class CliBadFile : public SmallRun {};

TEST_F(CliBadFile, ReportsEveryMistakeWithItsLine) {
  const std::string file = path("bad.yaml").string();
  std::string text = read_text(path("config.yaml"));
  text += "optimiser:\n  lr: 1\n";  // line 25
  const size_t at = text.find("num_heads: 4");
  text.replace(at, 12, "num_heads: x");  // line 6
  write_text(file, text);
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run(tessera(ranks, {"train", file})),
                   {file + ":6:", "model.num_heads", file + ":", "did you mean 'optimizer'?"});
  }
}

TEST_F(CliBadFile, RejectsInvalidYaml) {
  const std::string file = path("bad.yaml").string();
  for (const char* text : {"run: [", "", "\x7f\x45\x4c\x46\x02\x01", "- a\n- b\n"}) {
    write_text(file, text);
    for (const int ranks : {kAlone, 2}) {
      expect_refused(run(tessera(ranks, {"train", file})), {});
    }
  }
  expect_refused(run(tessera(2, {"train", path("").string()})), {});
}

TEST_F(CliBadFile, RejectsDeviceMissingFromBuild) {
  if (kHasCuda) GTEST_SKIP() << "this build has CUDA support";
  expect_refused(run_train(2, "run", {"run.device=cuda"}),
                 {"run.device is cuda, but this build of Tessera has no CUDA support"});
}

TEST_F(CliBadFile, RejectsTf32AndCudnnDropoutWithoutGpu) {
  if constexpr (kHasCuda) {
    if (cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU";
  }
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_train(ranks, "run", {"run.device=auto", "run.tf32=true"}),
                   {"run.tf32 is true, but only GPUs have TF32, and this run uses CPUs",
                    "choose false, or start it on a machine with GPUs"});
    expect_refused(
        run_train(ranks, "run",
                  {"run.device=auto", "run.precision=bf16", "train.cudnn_dropout=true"}),
        {"train.cudnn_dropout is true, but cuDNN runs only on GPUs, and this run uses CPUs",
         "choose false, or start it on a machine with GPUs"});
  }
}

TEST_F(CliBadFile, RejectsUnusableRunFolder) {
  write_text(path("file"), "precious");
  for (const int ranks : {kAlone, 2}) {
    expect_refused(run_train(ranks, "file"), {"run.dir " + path("file").string() + " is a file"});
    expect_refused(run_train(ranks, "file/run"),
                   {"run.dir " + path("file/run").string(), "Not a directory"});
  }
  EXPECT_EQ(read_text(path("file")), "precious");
  expect_refused(
      run(tessera(2, {"train", path("config.yaml").string(), "--set", "run.dir=/proc/x"})),
      {"run.dir /proc/x"});
}

}  // namespace
}  // namespace tessera::test
