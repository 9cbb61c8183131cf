#include "core/cuda/graph.h"
#include "core/cuda/workspace.h"
#include "tests/emulator/tests/test_launch.h"
#include "tests/support/expect_error.h"

namespace tessera::cuda {
namespace {

__global__ void add_kernel(int* value, int what) { *value += what; }

void add(const Visible<int>& to, int what) {
  launch("add", one_block(1), add_kernel, to.get(), what);
}

TEST(Graphs, RunOnlyWhenLaunched) {
  const Visible<int> value(1);
  const Graph graph([&] {
    EXPECT_TRUE(is_recording());
    add(value, 3);
    check(cudaMemsetAsync(value.get(), 0, 1, stream()), "memset");
    add(value, 4);
  });
  EXPECT_FALSE(is_recording());
  EXPECT_EQ(value[0], 0);
  graph.launch();
  EXPECT_EQ(value[0], 4);
  add(value, 256);
  graph.launch();
  EXPECT_EQ(value[0], 260);
}

TEST(Graphs, KeepOwnersAlive) {
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owner;
  keep_for_recording(owner);  // not in any graph
  auto graph = std::make_unique<Graph>([&] { keep_for_recording(owner); });
  owner.reset();
  EXPECT_FALSE(watched.expired());
  graph.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Graphs, LaunchInPartsBetweenCuts) {
  const Visible<int> value(1);
  const Graph graph([&](const Graph::Cut& cut) {
    add(value, 1);
    cut();
    add(value, 2);
    cut();
    cut();  // no node in between
  });
  EXPECT_EQ(value[0], 0);
  for (int base = 0; base < 100; base += 50) {
    std::vector<int> seen;
    graph.launch([&](size_t at) {
      EXPECT_EQ(at, seen.size());
      seen.push_back(value[0]);
      add(value, 10);
    });
    EXPECT_EQ(seen, (std::vector<int>{base + 1, base + 13, base + 23}));
    EXPECT_EQ(value[0], base + 33);
    add(value, 17);
  }
}

TEST(Graphs, RestoreStreamAfterExceptionInLaterPart) {
  const Visible<int> value(1);
  const auto fails = [&](const Graph::Cut& cut) {
    add(value, 1);
    cut();
    add(value, 1);
    throw Error("halfway");
  };
  test::expect_error([&] { const Graph graph(fails); }, {"halfway"});
  EXPECT_FALSE(is_recording());
  add(value, 3);
  EXPECT_EQ(value[0], 3);
}

TEST(LazyGraphs, RunInOrderAfterDestruction) {
  const Environment lazy("TESSERA_EMULATOR_LAZY", "1");
  const Visible<int> value(1);
  {
    const Graph graph([&] { add(value, 3); });
    add(value, 1);
    graph.launch();
  }
  EXPECT_EQ(value[0], 0);
  synchronize();
  EXPECT_EQ(value[0], 4);
}

TEST(Graphs, RefuseHostWaitsDuringCapture) {
  const Visible<int> value(1);
  int copied = 0;
  const std::function<void()> waits[] = {
      [] { synchronize(); },
      [] { check(cudaStreamQuery(stream()), "query"); },
      [] { check(cudaDeviceSynchronize(), "synchronize"); },
      [] { release(allocate(1)); },
      [&] { check(cudaMemcpyAsync(&copied, value.get(), 4, cudaMemcpyDefault, stream()), "copy"); },
  };
  for (const auto& wait : waits) {
    test::expect_error([&] { const Graph graph(wait); }, {"cudaErrorStreamCaptureUnsupported"});
    EXPECT_FALSE(is_recording());
  }
  // An unchecked error.
  test::expect_error([&] { const Graph graph([] { cudaStreamQuery(stream()); }); },
                     {"cudaErrorStreamCaptureInvalidated"});
  add(value, 3);
  EXPECT_EQ(value[0], 3);
}

/// A second stream next to the thread's own, and events of both.
struct Side {
  cudaStream_t stream = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;

  Side() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "event");
    check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming), "event");
  }
  ~Side() {
    cudaEventDestroy(join);
    cudaEventDestroy(fork);
    cudaStreamDestroy(stream);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void begin() const {
    check(cudaEventRecord(fork, cuda::stream()), "record");
    check(cudaStreamWaitEvent(stream, fork), "wait");
  }
  void clear(const Visible<int>& value) const {
    check(cudaMemsetAsync(value.get(), 0, sizeof(int), stream), "memset");
  }
  void end() const {
    check(cudaEventRecord(join, stream), "record");
    check(cudaStreamWaitEvent(cuda::stream(), join), "wait");
  }
};

TEST(Graphs, CaptureForkedStreams) {
  const Side side;
  for (const char* setting : {"0", "1"}) {
    const Environment lazy("TESSERA_EMULATOR_LAZY", setting);
    const Visible<int> value(1);
    const Graph graph([&] {
      add(value, 1);
      side.begin();
      side.clear(value);
      side.end();
      add(value, 2);
    });
    side.clear(value);  // it is no longer captured
    graph.launch();
    graph.launch();
    synchronize();
    EXPECT_EQ(value[0], 2);
  }
}

TEST(Graphs, RefuseUnjoinedStreams) {
  const Side side;
  const Visible<int> value(1);
  const auto forks = [&] {
    side.begin();
    side.clear(value);
  };
  test::expect_error([&] { const Graph graph(forks); }, {"cudaErrorStreamCaptureUnjoined"});
  const auto joins_early = [&] {
    forks();
    side.end();
    side.clear(value);
  };
  test::expect_error([&] { const Graph graph(joins_early); }, {"cudaErrorStreamCaptureUnjoined"});
  const auto cut_while_forked = [&](const Graph::Cut& cut) {
    forks();
    cut();
    side.end();
  };
  test::expect_error([&] { const Graph graph(cut_while_forked); },
                     {"cudaErrorStreamCaptureUnjoined"});
  const Graph does_nothing_there([&] { side.begin(); });
}

TEST(Graphs, RefuseEventsFromOutsideCapture) {
  const Side side;
  const Visible<int> value(1);
  side.clear(value);
  check(cudaEventRecord(side.join, side.stream), "record");
  test::expect_error(
      [&] {
        const Graph graph([&] { check(cudaStreamWaitEvent(stream(), side.join), "the wait"); });
      },
      {"the wait", "cudaErrorStreamCaptureIsolation"});
}

TEST(Graphs, RefuseHostQueriesOfCapturedEvents) {
  const Side side;
  cudaError_t within = cudaSuccess;
  const auto asks = [&] {
    check(cudaEventRecord(side.fork, stream()), "record");
    within = cudaEventQuery(side.fork);
  };
  test::expect_error([&] { const Graph graph(asks); }, {"cudaErrorStreamCaptureInvalidated"});
  EXPECT_EQ(within, cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(side.fork), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(side.stream, side.fork), cudaErrorCapturedEvent);
  check(cudaEventRecord(side.fork, stream()), "record");
  EXPECT_EQ(cudaEventSynchronize(side.fork), cudaSuccess);
}

TEST(Graphs, RestoreStreamAfterException) {
  const Visible<int> value(1);
  const auto fails = [&] {
    add(value, 1);
    throw Error("halfway");
  };
  test::expect_error([&] { const Graph graph(fails); }, {"halfway"});
  EXPECT_FALSE(is_recording());
  add(value, 3);
  EXPECT_EQ(value[0], 3);
}

TEST(Graphs, RefuseWorkspaceGrowthDuringCapture) {
  workspace(1);
  const int64_t moves = workspace_moves();
  const Graph fits([] { workspace(1); });
  test::expect_error([] { const Graph graph([] { workspace(size_t{1} << 26); }); },
                     {"scratch memory has to grow while a CUDA graph is recorded"});
  EXPECT_EQ(workspace_moves(), moves);
  workspace(size_t{1} << 26);
  EXPECT_EQ(workspace_moves(), moves + 1);
}

}  // namespace
}  // namespace tessera::cuda
