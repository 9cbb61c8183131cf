#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/small_run.h"

namespace tessera::test {
namespace {

/// `mpirun -np 1 FIRST : -np 1 SECOND`
Outcome run_together(const Arguments& first, const Arguments& second) {
  Arguments command = tessera(1, {});
  command.pop_back();  // tessera itself
  const Arguments one_rank(command.end() - 2, command.end());
  command.insert(command.end(), first.begin(), first.end());
  command.emplace_back(":");
  command.insert(command.end(), one_rank.begin(), one_rank.end());
  command.insert(command.end(), second.begin(), second.end());
  return run(command);
}

class CliRanks : public SmallRun {
 protected:
  void expect_refused_together(const Arguments& first, const Arguments& second,
                               const Arguments& facts) const {
    const Outcome outcome = run_together(tessera(kAlone, first), tessera(kAlone, second));
    expect_refused(outcome, {"the ranks do not belong together: "});
    for (const std::string& fact : facts) EXPECT_EQ(outcome.count(fact), 1) << outcome.output;
    EXPECT_FALSE(std::filesystem::exists(path("run")));
  }
};

TEST_F(CliRanks, RejectsDifferentConfigurations) {
  expect_refused_together(train("run"), train("run", {"optimizer.lr=0.1"}),
                          {"optimizer.lr is ", "0.1 on rank 1"});
  // Different batches would hang.
  expect_refused_together(
      train("run"), train("run", {"batch.global=4", "batch.micro=1", "parallel.tensor=2"}),
      {"batch.global is ", "batch.micro is ", "parallel.tensor is 1 on rank 0, but 2 on rank 1"});
}

TEST_F(CliRanks, RejectsDifferentDataUnderSamePath) {
  // Each rank has the dataset in its own folder, under the same relative path.
  for (const char* host : {"a", "b"}) {
    std::filesystem::create_directories(path(host));
    for (const char* end : {".bin", ".idx", ".meta.json", ".tokenizer.json"}) {
      if (!std::filesystem::exists(dataset() + end)) continue;
      std::filesystem::copy_file(dataset() + end, path(host) / (std::string("data") + end));
    }
  }
  std::string tokens = read_text(path("b") / "data.bin");
  tokens[20] = static_cast<char>(tokens[20] ^ 1);
  write_text(path("b") / "data.bin", tokens);
  const auto train_in = [&](const char* host) {
    const std::string script = fmt::format("cd {} && exec \"$@\"", path(host).string());
    Arguments command = {"sh", "-c", script, "sh"};
    const Arguments program = tessera(kAlone, train("run", {"data.train=data"}));
    command.insert(command.end(), program.begin(), program.end());
    return command;
  };
  const Outcome outcome = run_together(train_in("a"), train_in("b"));
  expect_refused(outcome, {"the ranks do not belong together: the data of data is "});
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(CliRanks, RejectsDifferentCommands) {
  expect_refused_together(train("run"), {"eval", path("run").string()},
                          {"the command is train on rank 0, but eval on rank 1"});
  expect_refused_together(train("run"), {"verify", path("run").string()},
                          {"the command is train on rank 0, but verify on rank 1"});
  expect_refused_together({"eval", "here"}, {"eval", "there"},
                          {"RUN is here on rank 0, but there on rank 1"});
}

TEST_F(CliRanks, UsageErrorOnOneRankEndsAllRanks) {
  const Outcome outcome =
      run_together(tessera(kAlone, train("run")), tessera(kAlone, train("run", {"--nonsense"})));
  expect_refused(outcome, {"the ranks do not belong together: ", "--nonsense on rank 1"});
  EXPECT_EQ(outcome.count("terminate called"), 0) << outcome.output;
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

}  // namespace
}  // namespace tessera::test
