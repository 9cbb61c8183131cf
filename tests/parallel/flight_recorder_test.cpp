#include "core/trace/flight_recorder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/memory.h"
#include "core/trace/trace.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/communicators/traffic.h"
#include "parallel/process_grid.h"
#include "parallel/watchdog/hang_report.h"
#include "parallel/watchdog/hang_watchdog.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::TestFolder;

Tensor ones(std::vector<float>& values) {
  return {values.data(), {static_cast<int64_t>(values.size())}, DType::f32, kCpu};
}

TEST(FlightRecorder, KeepsItsRecordsWhenItsFolderIsRemoved) {
  const TestFolder folder;
  const auto run = folder.path() / "run";
  const auto file = flight_file(run, 0);
  std::filesystem::create_directories(run);
  FlightRecorder recorder(file, 0, 1, "here");
  const int group = recorder.add_group("data", 0, 1, 1, 0);
  recorder.end(recorder.start(group, "all_reduce", "gradients", 8));
  const auto before = std::filesystem::last_write_time(file);
  recorder.restore_file();  // nothing to do
  EXPECT_EQ(std::filesystem::last_write_time(file), before);
  std::filesystem::remove_all(run);
  recorder.restore_file();
  recorder.begin_step(9);
  recorder.end(recorder.start(group, "broadcast", "weights", 8));
  const RankSnapshot rank = read_snapshot(file);
  EXPECT_EQ(rank.step, 9);
  ASSERT_EQ(rank.calls.size(), 2u);
  EXPECT_EQ(rank.calls[0].kind, "all_reduce");
  EXPECT_EQ(rank.calls[1].kind, "broadcast");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run), {}), 1);
}

TEST(FlightRecorder, RecordsCollectivesOfThreadRanks) {
  const TestFolder folder;
  run_thread_ranks(4, [&](Communicator& world) {
    FlightRecorder recorder(flight_file(folder.path(), world.rank()), world.rank(), 4, "here");
    const FlightRecorder::Scope scope(&recorder);
    const ParallelGroups groups = make_parallel_groups(world, {.tensor = 2});
    recorder.begin_step(7);
    recorder.begin_micro_batch(2, 3);
    std::vector<float> values(8, 1.0f);
    {
      const TraceRange block("blocks.1");
      const TraceRange layer("mlp");
      const TrafficScope traffic(Traffic::backward);
      groups.tp->all_reduce(ones(values));
    }
    const auto pending = groups.dp->all_reduce_async(ones(values));
    pending->wait();
    world.barrier();
  });
  const RankSnapshot rank = read_snapshot(flight_file(folder.path(), 3));
  ASSERT_EQ(rank.calls.size(), 3u);
  EXPECT_EQ(rank.step, 7);
  EXPECT_EQ(rank.end, RankEnd::finished);
  EXPECT_FALSE(rank.is_waiting());
  const RecordedCollective& first = rank.calls[0];
  EXPECT_EQ(describe(first, rank.groups[first.group]),
            "all_reduce 0 of the tensor ranks 2, 3 (backward, 32 B)");
  EXPECT_EQ(first.place, "blocks.1/mlp");
  EXPECT_EQ(first.step, 7);
  EXPECT_EQ(first.micro_batch, 2);
  const RecordedCollective& second = rank.calls[1];
  EXPECT_EQ(describe(second, rank.groups[second.group]),
            "all_reduce 0 of the data ranks 1, 3 (counts, 32 B)");
  EXPECT_EQ(rank.calls[2].kind, "barrier");
  for (const RecordedCollective& call : rank.calls) {
    EXPECT_GT(call.started, 0);
    EXPECT_GE(call.waited, call.started);
    EXPECT_GE(call.ended, call.waited);
  }
}

TEST(FlightRecorder, KeepsTheLastCalls) {
  const TestFolder folder;
  FlightRecorder recorder(flight_file(folder.path(), 0), 0, 1, "here");
  const int group = recorder.add_group("data", 0, 1, 2, 0);
  const uint64_t calls = 3 * FlightRing::kEntries + 5;
  for (uint64_t i = 0; i < calls; ++i) recorder.end(recorder.start(group, "barrier", "counts", 0));
  const RankSnapshot rank = read_snapshot(flight_file(folder.path(), 0));
  ASSERT_EQ(rank.calls.size(), FlightRing::kEntries);
  EXPECT_EQ(rank.calls.back().call, calls - 1);
  EXPECT_EQ(rank.calls.front().call, calls - FlightRing::kEntries);
}

TEST(FlightRecorder, CutsDeepAndLongPlaces) {
  const TestFolder folder;
  FlightRecorder recorder(flight_file(folder.path(), 0), 0, 1, "here");
  const FlightRecorder::Scope scope(&recorder);
  PlaceStack& places = *PlaceStack::current();
  const std::string name(100, 'n');
  for (uint32_t i = 0; i < 2 * PlaceStack::kDepth; ++i) places.enter(name.c_str());
  EXPECT_EQ(read_snapshot(flight_file(folder.path(), 0)).place.size(),
            PlaceStack::kDepth * PlaceStack::kName - 1);
  for (uint32_t i = 0; i < 2 * PlaceStack::kDepth; ++i) places.leave();
  EXPECT_EQ(read_snapshot(flight_file(folder.path(), 0)).place, "");
}

TEST(FlightRecorder, RefusesOtherFiles) {
  const TestFolder folder;
  const auto file = flight_file(folder.path(), 0);
  test::expect_error([&] { read_snapshot(file); }, {file.c_str(), "No such file"});
  std::ofstream(file) << "text";
  test::expect_error([&] { read_snapshot(file); }, {file.c_str(), "no flight recorder of this"});
  EXPECT_EQ(read_progress(file), 0u);
  test::expect_error([&] { FlightRecorder(folder.path() / "none" / "rank", 0, 1, "here"); },
                     {"cannot be created", "No such file"});
}

/// A process that waits in a collective until it is killed.
class WaitingProcess {
 public:
  explicit WaitingProcess(const std::filesystem::path& folder) : pid_(::fork()) {
    if (pid_ == 0) {
      FlightRecorder recorder(flight_file(folder, 0), 0, 2, "here");
      const FlightRecorder::Scope scope(&recorder);
      recorder.set_phase(RunPhase::training);
      recorder.begin_step(3);
      const TraceRange range("blocks.0");
      recorder.wait(
          recorder.start(recorder.add_group("data", 0, 1, 2, 0), "all_gather", "weights", 64));
      while (true) ::pause();
    }
    while (!waits(folder)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ~WaitingProcess() {
    ::kill(pid_, SIGKILL);
    if (!reaped_) ::waitpid(pid_, nullptr, 0);
  }
  WaitingProcess(const WaitingProcess&) = delete;
  WaitingProcess& operator=(const WaitingProcess&) = delete;

  void stop() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    reaped_ = true;
  }

 private:
  static bool waits(const std::filesystem::path& folder) {
    try {
      return read_snapshot(flight_file(folder, 0)).is_waiting();
    } catch (const std::exception&) {
      return false;
    }
  }

  pid_t pid_;
  bool reaped_ = false;
};

TEST(FlightRecorder, SurvivesItsWriter) {
  const TestFolder folder;
  WaitingProcess writer(folder.path());
  const auto expect_readable = [&](ProcessState::Kind kind) {
    const std::vector<RankView> views = view_ranks(folder.path().string(), 1, "here");
    ASSERT_TRUE(views[0].ring) << views[0].problem;
    EXPECT_EQ(views[0].state.kind, kind);
    EXPECT_EQ(views[0].ring->end, RankEnd::running);
    ASSERT_TRUE(views[0].ring->waits);
    EXPECT_EQ(views[0].ring->waits->kind, "all_gather");
    EXPECT_EQ(views[0].ring->waits->place, "blocks.0");
    EXPECT_EQ(place_of(*views[0].ring), "in step 3: blocks.0");
  };
  expect_readable(ProcessState::Kind::sleeping);
  writer.stop();
  expect_readable(ProcessState::Kind::stopped);
  writer.kill();
  expect_readable(ProcessState::Kind::gone);
}

/// A rank of two data ranks that waits in call 5, or has not entered it.
RankView view_of(int rank, bool waits, ProcessState::Kind kind) {
  RankView view;
  view.rank = rank;
  view.host = "node7";
  view.process = 100 + rank;
  view.state.kind = kind;
  view.state.letter = kind == ProcessState::Kind::stopped ? 'T' : 'S';
  RankSnapshot ring;
  ring.rank = rank;
  ring.ranks = 2;
  ring.phase = RunPhase::training;
  ring.step = 9;
  ring.micro_batch = 1;
  ring.micro_batches = 2;
  ring.place = "step/blocks.1";
  ring.groups = {{"data", 0, 1, 2, rank, waits ? 6u : 5u}};
  if (waits) {
    RecordedCollective call;
    call.number = call.call = 5;
    call.step = 9;
    call.bytes = 1200;
    call.kind = "all_reduce";
    call.purpose = "gradients";
    ring.waits = call;
  }
  view.ring = ring;
  return view;
}

TEST(HangReport, NamesTheMissingRank) {
  using Kind = ProcessState::Kind;
  const std::string report = hang_report(
      {view_of(0, true, Kind::sleeping), view_of(1, false, Kind::stopped)}, 3.0, 5'000'000'000);
  EXPECT_EQ(report,
            "the run hangs: no rank has made progress for 3.0 s\n"
            "  rank 1 (host node7, process 101) is missing from all_reduce 5 of the data ranks 0, "
            "1 (gradients, 1.2 kB), in which rank 0 waits\n"
            "    it is in step 9, micro-batch 1 of 2: step/blocks.1\n"
            "    its process is stopped (state T)\n"
            "the other ranks:\n"
            "  rank 0 (host node7, process 100) has waited 5.0 s in all_reduce 5 of the data ranks "
            "0, 1 (gradients, 1.2 kB); it is in step 9, micro-batch 1 of 2: step/blocks.1\n"
            "    its process sleeps (state S)\n"
            "what to do:\n"
            "  rank 1: a signal (SIGSTOP, SIGTSTP), a debugger or a scheduler has stopped its "
            "process. `kill -CONT 101` on host node7 lets it continue, while the others wait\n"
            "  the same command resumes the run from its last checkpoint\n");
}

TEST(HangReport, NamesARankThatStoppedWithinTheCollective) {
  using Kind = ProcessState::Kind;
  EXPECT_EQ(find_culprits({view_of(0, true, Kind::sleeping), view_of(1, true, Kind::stopped)}),
            std::vector<int>{1});
  EXPECT_EQ(find_culprits({view_of(0, true, Kind::gone), view_of(1, true, Kind::sleeping)}),
            std::vector<int>{0});
}

TEST(HangReport, NamesTheLinkIfATransferDoesNotEnd) {
  using Kind = ProcessState::Kind;
  std::vector<RankView> views = {view_of(0, true, Kind::sleeping), view_of(1, true, Kind::running)};
  EXPECT_TRUE(find_culprits(views).empty());
  EXPECT_NE(hang_report(views, 1.0, 0)
                .find("all have entered all_reduce 5 of the data ranks 0, 1 "
                      "(gradients, 1.2 kB), but its transfer does not end "
                      "on ranks 0, 1\n"),
            std::string::npos);
  // On rank 0 the transfer has ended, and the rank waits in the next collective.
  views[0].host = "node6";
  views[0].ring->groups[0].started = 7;
  views[0].ring->waits->call = 6;
  const std::string report = hang_report(views, 1.0, 0);
  EXPECT_NE(report.find("does not end on rank 1\n"), std::string::npos) << report;
  EXPECT_NE(report.find("check the network between hosts node6, node7"), std::string::npos);
  EXPECT_EQ(report.find("different orders"), std::string::npos);
}

TEST(HangReport, FindsCollectivesInDifferentOrders) {
  std::vector<RankView> views;
  for (const int rank : {0, 1}) {
    RankView view = view_of(rank, true, ProcessState::Kind::sleeping);
    view.ring->groups.push_back({"world", 0, 1, 2, rank, 3u});
    view.ring->waits->group = static_cast<size_t>(rank);  // each in another one
    view.ring->waits->call = rank == 0 ? 6 : 3;
    view.ring->groups[static_cast<size_t>(rank)].started = rank == 0 ? 7 : 4;
    views.push_back(view);
  }
  EXPECT_NE(hang_report(views, 1.0, 0).find("different orders"), std::string::npos);
}

// Rank 1 sends two messages to rank 2 and gets one. Rank 0 waits for neither.
TEST(HangReport, NamesPeersThatHaveNotStartedTheirEnds) {
  struct Case {
    std::vector<FlightPeer> of_rank_2;  // its exchanges, one after another
    bool on_gpu, is_missing;
  };
  for (const auto& [of_rank_2, on_gpu, is_missing] :
       {Case{{}, false, true}, Case{{{0, 2, 2}}, false, true}, Case{{{1, 0, 2}}, false, true},
        Case{{{1, 1, 1}}, false, true}, Case{{{1, 1, 2}}, false, false},
        Case{{{1, 0, 2}, {0, 1, 1}, {1, 1, 0}}, false, false}, Case{{{1, 1, 1}}, true, true},
        Case{{{1, 1, 2}}, true, false}}) {
    const TestFolder folder;
    std::vector<std::unique_ptr<FlightRecorder>> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(
          std::make_unique<FlightRecorder>(flight_file(folder.path(), rank), rank, 3, "elsewhere"));
      ranks.back()->add_group("pipeline", 0, 1, 3, rank);
    }
    for (const FlightPeer& peer : of_rank_2) {
      ranks[2]->end(ranks[2]->start(0, "exchange", "forward", 8, {&peer, 1}));
    }
    const FlightPeer first{2, 1, 0}, second{2, 1, 1};
    ranks[1]->end(ranks[1]->start(0, "exchange", "forward", 8, {&first, 1}));
    const uint64_t call = ranks[1]->start(0, "exchange", "forward", 8, {&second, 1});
    const FlightRecorder::Scope scope(ranks[1].get());
    std::optional<FlightRecorder::GpuWait> gpu;
    on_gpu ? static_cast<void>(gpu.emplace()) : ranks[1]->wait(call);
    const auto missing = find_missing(view_ranks(folder.path().string(), 3, "here"));
    ASSERT_EQ(missing.size(), is_missing ? 1u : 0u);
    if (!is_missing) continue;
    EXPECT_EQ(missing[0].rank, 2);
    EXPECT_EQ(missing[0].waiting_rank, 1);
    EXPECT_EQ(describe(missing[0].collective, missing[0].group),
              "exchange of the pipeline ranks 0, 1, 2 with rank 2 (forward, 8 B)");
  }
}

TEST(FlightRecorder, RecordsPeersOfExchanges) {
  const TestFolder folder;
  run_thread_ranks(3, [&](Communicator& world) {
    const auto file = flight_file(folder.path(), world.rank());
    FlightRecorder recorder(file, world.rank(), 3, "here");
    const FlightRecorder::Scope scope(&recorder);
    const OwnedTensor rows({6, 5}, DType::f32), other_rows({6, 5}, DType::f32);
    const std::vector<int64_t> counts = {2, 2, 2};
    world.all_to_all(rows.tensor, counts, other_rows.tensor, counts);
    world.all_to_all_async(rows.tensor, counts, other_rows.tensor, counts)->wait();
    const RankSnapshot ring = read_snapshot(file);
    ASSERT_EQ(ring.calls.size(), 2u);
    EXPECT_EQ(ring.groups[0].started, 0u) << "exchanges do not count as calls of the group";
    for (size_t i = 0; i < 2; ++i) {
      const RecordedCollective& call = ring.calls[i];
      EXPECT_EQ(call.kind, "exchange");
      EXPECT_EQ(call.bytes, 2 * 2 * 5 * 4);
      EXPECT_NE(call.ended, 0);
      ASSERT_EQ(call.peers.size(), 2u);
      for (const FlightPeer& peer : call.peers) {
        EXPECT_NE(peer.rank, world.rank());
        EXPECT_EQ(peer.sent, i + 1);
        EXPECT_EQ(peer.received, i + 1);
      }
    }
  });
}

TEST(HangReport, SaysWhichRecorderCannotBeRead) {
  using Kind = ProcessState::Kind;
  RankView lost;
  lost.rank = 1;
  lost.problem = "No such file";
  const std::string report = hang_report({view_of(0, true, Kind::sleeping), lost}, 1.0, 0);
  EXPECT_NE(report.find("rank 1 has no readable flight recorder: No such file"), std::string::npos)
      << report;
}

/// A watchdog with a short timeout, of rank 0 of two.
class Watchdog : public testing::Test {
 protected:
  Watchdog() {
    options_.timeout = std::chrono::milliseconds(400);
    options_.folder = folder_.path();
    options_.ranks = 2;
    options_.host = "here";
    options_.print = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      printed_ += text;
    };
    options_.end_process = [this] { ++ends_; };
    for (FlightRecorder* recorder : {&mine_, &other_}) {
      recorder->set_phase(RunPhase::training);
      recorder->add_group("data", 0, 1, 2, recorder == &mine_ ? 0 : 1);
      for (int step = 0; step < 2; ++step) recorder->end_step();
    }
  }

  std::string printed() {
    const std::lock_guard lock(mutex_);
    return printed_;
  }
  void wait_for_end() {
    while (ends_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  TestFolder folder_;
  FlightRecorder mine_{flight_file(folder_.path(), 0), 0, 2, "here"};
  FlightRecorder other_{flight_file(folder_.path(), 1), 1, 2, "here"};
  HangWatchdog::Options options_;
  std::mutex mutex_;
  std::string printed_;
  std::atomic<int> ends_ = 0;
};

TEST_F(Watchdog, ReportsOnceAndEnds) {
  mine_.wait(mine_.start(0, "all_reduce", "loss", 8));
  const HangWatchdog first(mine_, options_);
  wait_for_end();
  EXPECT_NE(printed().find("rank 1 (host here, process"), std::string::npos) << printed();
  EXPECT_NE(printed().find("is missing from all_reduce 0 of the data ranks 0, 1 (loss, 8 B)"),
            std::string::npos);
  EXPECT_EQ(printed().find("the run hangs"), printed().rfind("the run hangs"));
  EXPECT_EQ(read_snapshot(flight_file(folder_.path(), 0)).end, RankEnd::hung);
}

TEST_F(Watchdog, IncludesWhatOtherHostsSay) {
  const TestFolder folder;
  FlightRecorder here(flight_file(folder.path(), 0), 0, 3, "here");
  FlightRecorder there(flight_file(folder.path(), 1), 1, 3, "there");
  FlightRecorder silent(flight_file(folder.path(), 2), 2, 3, "silent");
  for (FlightRecorder* recorder : {&here, &there, &silent}) {
    recorder->set_phase(RunPhase::training);
    for (int step = 0; step < 2; ++step) recorder->end_step();
    const int rank = recorder->ring().rank;
    recorder->add_group("data", 0, 1, 3, rank);
    if (rank < 2) recorder->wait(recorder->start(0, "all_reduce", "loss", 8));
  }
  options_.folder = folder.path();
  options_.ranks = 3;
  HangWatchdog::Options others = options_;
  others.rank = 1;
  others.host = "there";
  const HangWatchdog first(here, options_), second(there, others);
  while (ends_ < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const bool first_reports = printed().find("tessera: rank 0:") != std::string::npos;
  EXPECT_NE(printed().find(first_reports ? "host there says:" : "host here says:"),
            std::string::npos)
      << printed();
  EXPECT_NE(printed().find("host silent says nothing"), std::string::npos) << printed();
  EXPECT_NE(printed().find("rank 2 (host silent, process"), std::string::npos) << printed();
}

TEST_F(Watchdog, WaitsWhileAnotherRankMakesProgress) {
  mine_.wait(mine_.start(0, "all_reduce", "loss", 8));
  const HangWatchdog watchdog(mine_, options_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < end) {
    other_.ring().places.enter("slow op");
    other_.ring().places.leave();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(ends_, 0) << printed();
}

TEST_F(Watchdog, CountsActivityOutsideOfTraining) {
  other_.set_phase(RunPhase::saving);
  mine_.wait(mine_.start(0, "barrier", "counts", 0));
  const HangWatchdog watchdog(mine_, options_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < end) {
    ++other_.ring().activity;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(ends_, 0) << printed();
  wait_for_end();  // once it is no longer active
}

TEST_F(Watchdog, OnlyReportsIfAskedTo) {
  options_.aborts = false;
  const uint64_t call = mine_.start(0, "all_reduce", "loss", 8);
  mine_.wait(call);
  const HangWatchdog watchdog(mine_, options_);
  const auto wait_until_printed = [&](const char* text) {
    while (printed().find(text) == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  wait_until_printed("the run waits on");
  std::this_thread::sleep_for(2 * options_.timeout);
  EXPECT_EQ(printed().find("the run hangs"), printed().rfind("the run hangs"));
  mine_.end(call);
  mine_.start(0, "barrier", "counts", 0);
  wait_until_printed("the run makes progress again");
  EXPECT_EQ(ends_, 0);
}

TEST_F(Watchdog, OnlyWritesHeartbeatsWithoutATimeout) {
  options_.timeout = std::chrono::milliseconds(0);
  mine_.wait(mine_.start(0, "all_reduce", "loss", 8));
  mine_.ring().heartbeat = 0;
  const HangWatchdog watchdog(mine_, options_);
  while (mine_.ring().heartbeat == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(printed(), "");
}

}  // namespace
}  // namespace tessera
