#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "launch/support/exit_codes.h"
#include "launch/tools/supervise/choose_layout.h"
#include "launch/tools/supervise/launch_command.h"
#include "launch/tools/supervise/restart_policy.h"
#include "launch/tools/supervise/run_end.h"
#include "launch/train/start/stop_signal.h"
#include "tests/launch/config/support.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/source_folder.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LaunchCommand command(const std::string& text) {
  std::istringstream words(text);
  return LaunchCommand(std::vector<std::string>{std::istream_iterator<std::string>(words), {}});
}

std::string text_of(const LaunchCommand& command) {
  return fmt::format("{}", fmt::join(command.words(), " "));
}

TEST(LaunchCommand, FindsConfigurationRanksAndHosts) {
  const LaunchCommand found = command(
      "/usr/bin/mpirun --oversubscribe -np 6 --host a:2,b:2,a:2 build/tessera train --stop-at 9 "
      "--set a.b=1 x.yaml --set=c.d=2");
  EXPECT_TRUE(found.is_open_mpi());
  EXPECT_EQ(found.config(), "x.yaml");
  EXPECT_THAT(found.overrides(), ElementsAre("a.b=1", "c.d=2"));
  EXPECT_EQ(found.ranks(), 6);
  ASSERT_EQ(found.hosts().size(), 2u);
  EXPECT_EQ(found.hosts()[0].name, "a");
  EXPECT_EQ(found.hosts()[0].slots, 4);
  EXPECT_EQ(found.hosts()[1].slots, 2);
}

TEST(LaunchCommand, ComposesMpirun) {
  const auto composed = [](const LaunchRequest& request, bool is_root) {
    return fmt::format("{}", fmt::join(mpirun_command(request, "/bin/tessera", is_root), " "));
  };
  LaunchRequest request;
  request.command = {"train", "x.yaml"};
  request.environment = {"OMP_NUM_THREADS"};
  test::expect_error([&] { composed(request, false); }, {"-np 4", "--hosts"});
  request.ranks = 2;
  EXPECT_EQ(composed(request, false),
            "mpirun --oversubscribe --bind-to none -np 2 /bin/tessera train x.yaml");
  request.hosts = "a:2,b,c:3";
  request.ranks.reset();
  request.mpirun = "/opt/mpirun --mca btl self";
  EXPECT_EQ(composed(request, true),
            "/opt/mpirun --mca btl self --allow-run-as-root --oversubscribe --bind-to none --host "
            "a:2,b,c:3 -x OMP_NUM_THREADS -np 6 /bin/tessera train x.yaml");
  EXPECT_EQ(LaunchCommand(mpirun_command(request, "tessera", true)).hosts().size(), 3u);
}

TEST(StopSignal, SaysWhatAnEndLoses) {
  EXPECT_EQ(lost_steps(412, 400), "12 steps since the checkpoint of step 400");
  EXPECT_THAT(lost_steps(1, {}), HasSubstr("all 1 step:"));
}

TEST(LaunchCommand, ChangesRanksHostsAndKeys) {
  const LaunchCommand found = command("mpirun -n 4 -H a:2,b:2 tessera train x.yaml");
  const LaunchCommand changed =
      found.with_hosts({found.hosts()[1]}, "").with_ranks(2).with_override("parallel.tensor=2");
  EXPECT_EQ(text_of(changed), "mpirun -n 2 -H b:2 tessera train x.yaml --set parallel.tensor=2");
  EXPECT_EQ(text_of(command("mpirun --host a tessera train x.yaml").with_ranks(1)),
            "mpirun -np 1 --host a tessera train x.yaml");
}

TEST(LaunchCommand, WritesAHostfileOfTheOtherHosts) {
  const test::TestFolder folder;
  std::ofstream(folder / "hosts") << "# nodes\nnode1 slots=4\nnode2 slots=2 max_slots=8\n\n";
  const LaunchCommand found =
      command(fmt::format("mpirun --hostfile {} tessera train x.yaml", folder / "hosts"));
  ASSERT_EQ(found.hosts().size(), 2u);
  EXPECT_EQ(found.hosts()[0].slots, 4);
  const LaunchCommand changed = found.with_hosts({found.hosts()[1]}, folder / "left");
  EXPECT_EQ(text_of(changed),
            fmt::format("mpirun --hostfile {} tessera train x.yaml", folder / "left"));
  ASSERT_EQ(changed.hosts().size(), 1u);
  EXPECT_EQ(changed.hosts()[0].name, "node2");
}

TEST(LaunchCommand, RefusesCommandsThatDoNotTrain) {
  test::expect_error([] { command("mpirun -np 2 tessera eval run"); }, {"does not train"});
  test::expect_error([] { command("train x.yaml"); }, {"does not train"});
  test::expect_error([] { command("tessera train --set a.b=1"); }, {"no configuration"});
  test::expect_error(
      [] { command("mpirun -np 1 tessera train x.yaml : -np 1 tessera train x.yaml"); },
      {"several programs"});
  test::expect_error([] { command("mpirun --hostfile /nowhere/hosts tessera train x.yaml"); },
                     {"/nowhere/hosts: cannot be opened"});
  test::expect_error([] { command("mpirun --host a --hostfile b tessera train x.yaml"); },
                     {"second option"});
}

TEST(LaunchCommand, ComparesHostsByTheirShortNames) {
  EXPECT_TRUE(is_same_host("node7", "node7.cluster"));
  EXPECT_FALSE(is_same_host("node7", "node8.cluster"));
  EXPECT_TRUE(is_same_host("10.0.0.1", "10.0.0.1"));
  EXPECT_FALSE(is_same_host("10.0.0.1", "10.0.0.2"));
}

RankView rank_view(int rank, const std::string& host, RankEnd end) {
  RankView view;
  view.rank = rank;
  view.host = host;
  view.ring.emplace();
  view.ring->end = end;
  return view;
}

TEST(RunEnd, NamesTheRankThatDied) {
  const std::vector<RankView> views = {rank_view(0, "a", RankEnd::running),
                                       rank_view(1, "b", RankEnd::running)};
  const RunEnd noticed = explain_end(
      137,
      "mpirun noticed that process rank 1 with PID 12 on node b exited on signal 9 (Killed).\n",
      views, {});
  EXPECT_EQ(noticed.code, ExitCode::failed);
  EXPECT_EQ(noticed.rank, 1);
  EXPECT_EQ(noticed.what, "rank 1 (host b) died by signal 9");
  EXPECT_TRUE(noticed.is_of_host());
  const RunEnd seen = explain_end(137, "", views, {.dead_rank = 0, .hang = ""});
  EXPECT_EQ(seen.what, "rank 0 (host a) died without a message");
  EXPECT_EQ(explain_end(137, "", {}, {}).what, "the launcher died by signal 9");
}

TEST(RunEnd, NamesTheRankThatHung) {
  const std::vector<RankView> views = {rank_view(0, "a", RankEnd::hung),
                                       rank_view(1, "b", RankEnd::running),
                                       rank_view(2, "b", RankEnd::hung)};
  const RunEnd end = explain_end(75, "", views, {});
  EXPECT_EQ(end.code, ExitCode::hang);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.host, "b");
  const std::string report =
      "tessera: rank 0: the run hangs: no rank has made progress for 5.1 s\n"
      "  rank 2 (host b, process 12) is missing from all_reduce 8\n"
      "    it is in step 17\nthe other ranks:\n  rank 0 (host a, process 10) has waited\n";
  EXPECT_EQ(explain_end(75, report, views, {}).rank, 2);
  EXPECT_EQ(explain_end(139, report, views, {}).code, ExitCode::hang) << "mpirun crashed later";
}

TEST(RunEnd, TakesMessagesOfRanks) {
  const std::vector<RankView> views = {rank_view(0, "a", RankEnd::failed),
                                       rank_view(1, "b", RankEnd::failed)};
  const RunEnd own = explain_end(1, "x\ntessera: rank 1: out of memory\nmore", views, {});
  EXPECT_EQ(own.what, "rank 1 (host b) failed: out of memory");
  EXPECT_TRUE(own.is_of_host());
  const RunEnd shared = explain_end(65, "error: rank 1 of 2: data.bin is damaged\n", views, {});
  EXPECT_EQ(shared.code, ExitCode::data);
  EXPECT_EQ(shared.what, "rank 1 of 2: data.bin is damaged");
  EXPECT_EQ(shared.host, "b");
  EXPECT_FALSE(shared.is_of_host());
}

RunEnd ended(ExitCode code, const std::string& host = "") {
  RunEnd end;
  end.code = code;
  end.host = host;
  return end;
}

TEST(RunEnd, SurvivesHostileOutput) {
  const std::string huge(256 * 1024, 'x'), number(40, '9');
  const RunEnd end = explain_end(1, "tessera: rank " + number + ": a\nerror: " + huge, {}, {});
  EXPECT_EQ(end.rank, std::nullopt);
  EXPECT_LT(end.what.size(), 500U);
  EXPECT_EQ(explain_end(75, "the run hangs: \n  rank " + number + " (", {}, {}).rank, std::nullopt);
  explain_end(1, "process rank " + number + " with PID 1 on node " + huge, {}, {});
}

TEST(RestartPolicy, DoublesTheDelayUntilThereIsProgress) {
  RestartPolicy policy({.most_without_progress = 4, .delay = 1, .longest_delay = 3});
  EXPECT_EQ(policy.after(ended(ExitCode::failed), false, false).delay, 1);
  EXPECT_EQ(policy.after(ended(ExitCode::hang), false, false).delay, 2);
  EXPECT_EQ(policy.after(ended(ExitCode::data), false, false).delay, 3);
  EXPECT_EQ(policy.after(ended(ExitCode::output), true, false).delay, 1);
}

TEST(RestartPolicy, EndsWithoutProgress) {
  RestartPolicy policy({.most_without_progress = 2});
  EXPECT_TRUE(policy.after(ended(ExitCode::failed), false, false).restarts);
  EXPECT_TRUE(policy.after(ended(ExitCode::failed), true, false).restarts);
  EXPECT_TRUE(policy.after(ended(ExitCode::failed), false, false).restarts);
  const Decision last = policy.after(ended(ExitCode::failed), false, false);
  EXPECT_FALSE(last.restarts);
  EXPECT_EQ(last.why, "2 restarts in a row have saved no newer checkpoint");
}

TEST(RestartPolicy, EndsWhereARestartMakesNoSense) {
  for (const ExitCodeMeaning& code : exit_codes()) {
    RestartPolicy policy({});
    EXPECT_EQ(policy.after(ended(code.code), true, false).restarts, code.restarts) << code.name;
    EXPECT_FALSE(policy.after(ended(code.code), true, true).restarts) << code.name;
  }
}

TEST(RestartPolicy, LeavesOutAHostThatFailsInARow) {
  RestartPolicy policy({.most_host_failures = 2});
  EXPECT_EQ(policy.after(ended(ExitCode::failed, "a"), true, false).lost_host, "");
  EXPECT_EQ(policy.after(ended(ExitCode::hang, "b"), true, false).lost_host, "");
  EXPECT_EQ(policy.after(ended(ExitCode::data, "b"), true, false).lost_host, "");
  EXPECT_EQ(policy.after(ended(ExitCode::failed, "b"), true, false).lost_host, "b");
}

/// 12 heads and a batch of 24 on data that does not exist.
RunConfig gpt2(int64_t tensor) {
  RunConfig config = parse_config("x.yaml", kMinimal, std::vector<std::string>{"batch.global=24"});
  config.model = test::gpt2_model();
  config.parallel.tensor = tensor;
  config.automatic = {"batch.micro", "data.tokenizer"};
  return config;
}

TEST(ChooseLayout, KeepsTheTensorRanks) {
  const auto layout = choose_layout(gpt2(2), 7, {});  // 6 = 2 × 3 data ranks
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->ranks, 6);
  EXPECT_EQ(layout->tensor, 2);
  EXPECT_TRUE(layout->overrides.empty());
  EXPECT_EQ(choose_layout(gpt2(1), 11, {})->ranks, 8);  // 24 is no multiple of 9, 10 or 11
}

TEST(ChooseLayout, TakesOtherTensorRanksIfItMust) {
  const auto layout = choose_layout(gpt2(4), 3, {});
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->ranks, 3);
  EXPECT_EQ(layout->tensor, 1);
  EXPECT_THAT(layout->overrides, ElementsAre("parallel.tensor=1"));
}

TEST(ChooseLayout, ShrinksAMicroBatchThatDoesNotDivide) {
  RunConfig config = gpt2(1);
  config.automatic.erase("batch.micro");
  config.batch.micro = 6;  // of 4 data ranks
  const auto layout = choose_layout(config, 3, {});
  ASSERT_TRUE(layout);
  EXPECT_THAT(layout->overrides, ElementsAre("batch.micro=4"));
}

TEST(ChooseLayout, FitsIntoTheMemory) {
  constexpr size_t kGB = 1'000'000'000;
  EXPECT_EQ(choose_layout(gpt2(1), 2, 20 * kGB)->tensor, 1);
  const auto split = choose_layout(gpt2(1), 2, 1'800'000'000);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->tensor, 2);
  EXPECT_FALSE(choose_layout(gpt2(1), 2, kGB / 10));
}

TEST(ExitCodes, AreDocumented) {
  std::ifstream file(test::source_folder() / "docs/reliability.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, HasSubstr(exit_codes_markdown()))
      << "docs/reliability.md does not match launch/support/exit_codes.cpp";
}

}  // namespace
}  // namespace tessera
