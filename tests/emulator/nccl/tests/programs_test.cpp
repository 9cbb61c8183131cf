// Runs tessera itself under mpirun, with an emulated GPU per rank.

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

void set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), /*overwrite=*/1);
}

class GpuPrograms : public SmallRun {
 protected:
  static constexpr const char* kShort = "train.steps=6";
  static constexpr const char* kSplit = "parallel.tensor=2";

  ~GpuPrograms() override {
    use_gpus(0);
    ::unsetenv("TESSERA_EMULATOR_NCCL_FAULT");
    ::unsetenv("TESSERA_TEST_NCCL_SHARES_GPU");
    ::unsetenv("TESSERA_EMULATOR_CUBLASLT_VERSIONS");
  }

  static void use_gpus(int count) { set("TESSERA_EMULATOR_DEVICES", std::to_string(count)); }
};

TEST_F(GpuPrograms, TrainAndResumeLikeCpus) {
  use_gpus(0);
  expect_success(run_train(2, "cpus", {kShort, kSplit}));
  expect_success(run_train(4, "both", {kShort, kSplit, "--stop-at=2"}));
  use_gpus(4);
  const Outcome on_gpus = run_train(4, "gpus", {kShort, kSplit});
  expect_success(on_gpus);
  EXPECT_EQ(on_gpus.count("devices    4 ranks on 4 GPUs: emulated GPU, 12.0 GiB each; NCCL "), 1u)
      << on_gpus.output;
  EXPECT_EQ(on_gpus.count("no CUDA graphs"), 0u) << on_gpus.output;
  expect_near(losses("gpus"), losses("cpus"));
  expect_success(run_train(2, "both", {kShort, kSplit, "--stop-at=4"}));
  use_gpus(0);
  expect_success(run_train(2, "both", {kShort}));
  expect_near(losses("both"), losses("cpus"));
}

TEST_F(GpuPrograms, ShareOneGpuOverNcclIfATestRequestsIt) {
  use_gpus(0);
  expect_success(run_train(1, "cpu", {kShort}));
  use_gpus(1);
  const Arguments over_nccl = {kShort, kSplit, "parallel.backend=nccl"};
  expect_refused(run_train(4, "refused", over_nccl), {"parallel.backend", "4 ranks share 1 GPU"});
  set("TESSERA_TEST_NCCL_SHARES_GPU", "1");
  const Outcome shared = run_train(4, "shared", over_nccl);
  expect_success(shared);
  EXPECT_EQ(shared.count("4 ranks on 1 GPU: emulated GPU, 12.0 GiB; NCCL "), 1u) << shared.output;
  expect_near(losses("shared"), losses("cpu"));
}

TEST_F(GpuPrograms, SayWhenAnotherLibraryResumes) {
  use_gpus(1);
  const auto resume_with = [&](const char* version, const char* stop) {
    set("TESSERA_EMULATOR_CUBLASLT_VERSIONS", version);
    const Outcome outcome = run_train(1, "run", {kShort, stop});
    expect_success(outcome);
    return outcome;
  };
  resume_with("130002", "--stop-at=2");
  EXPECT_EQ(resume_with("130002", "--stop-at=3").count(" instead of "), 0u);
  const Outcome other = resume_with("130103", "--stop-at=4");
  EXPECT_EQ(other.count("cuBLASLt is 13.1.3 instead of 13.0.2"), 1u) << other.output;
  EXPECT_EQ(other.count(" instead of "), 1u) << other.output;
}

// Four ranks, because a sum of two has the same bits in any order.
TEST_F(GpuPrograms, RepeatedRunsHaveSameBits) {
  use_gpus(4);
  std::map<std::string, std::string> files[2];
  for (const int run : {0, 1}) {
    const std::string name = fmt::format("run{}", run);
    const Outcome outcome = run_train(4, name, {"train.steps=3"});
    expect_success(outcome);
    ASSERT_EQ(outcome.exit_code, 0);
    for (const auto& file : std::filesystem::directory_iterator(path(name) / "checkpoints" /
                                                                checkpoints(name).back())) {
      if (file.path().extension() != ".safetensors") continue;
      files[run][file.path().filename()] = read_text(file.path());
    }
  }
  EXPECT_GT(files[0].size(), 1u);
  EXPECT_TRUE(files[0] == files[1]);
}

/// The rank whose NCCL fails, and the index of the failing call in each group, whose first are the
/// warm-up's; −1: connecting.
struct Fault {
  int rank, call;
};

std::string to_string(const Fault& fault) {
  const std::string when = fault.call < 0 ? "connecting" : fmt::format("call{}", fault.call);
  return fmt::format("rank{}_{}", fault.rank, when);
}
std::ostream& operator<<(std::ostream& stream, const Fault& fault) {
  return stream << to_string(fault);
}

class GpuProgramsWithAFault : public GpuPrograms, public testing::WithParamInterface<Fault> {};

// Only the cause is reported, not the lost peers of the other ranks.
TEST_P(GpuProgramsWithAFault, ReportCauseAndEnd) {
  use_gpus(4);
  expect_success(run_train(2, "run", {kShort, kSplit, "--stop-at=2"}));
  const auto [rank, call] = GetParam();
  set("TESSERA_EMULATOR_NCCL_FAULT", fmt::format("{}:{}", rank, call));
  const Outcome outcome = run_train(2, "run", {kShort, kSplit});
  SCOPED_TRACE(outcome.output);
  EXPECT_FALSE(outcome.timed_out()) << "it hung";
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_EQ(outcome.count(fmt::format("NCCL failed on rank {} of 2: unhandled system error", rank)),
            1u);
  EXPECT_EQ(outcome.count("a fault injected by a test"), 1u);
  EXPECT_EQ(outcome.count("remote peer"), 0u);
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step_00000002"}));
  expect_success(run(tessera(kAlone, {"verify", path("run").string()})));
}

INSTANTIATE_TEST_SUITE_P(Of, GpuProgramsWithAFault,
                         testing::Values(Fault{1, -1}, Fault{0, 1}, Fault{0, 17}, Fault{1, 28},
                                         Fault{1, 32}),
                         [](const auto& test) { return to_string(test.param); });

TEST_F(GpuPrograms, EndWhenRankIsKilled) {
  use_gpus(4);
  Program program(
      tessera(2, train("run", {"train.steps=1000000", kSplit, "checkpoint.interval=2"})));
  ASSERT_TRUE(program.wait_for("step_00000002 (training waited")) << program.output();
  const std::vector<pid_t> ranks = program.processes("tessera");
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks.back(), SIGKILL);
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out()) << "it hung: " << outcome.output;
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_TRUE(ends_soon(ranks.front()));
  use_gpus(0);
  const std::string newest = checkpoints("run").back();
  const std::string stop = fmt::format("--stop-at={}", std::stoul(newest.substr(5)) + 1);
  expect_success(run_train(2, "run", {"train.steps=1000000", kSplit, stop}));
}

}  // namespace
}  // namespace tessera::test
