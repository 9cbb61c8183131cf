#include "core/cuda/graph.h"
#include "core/cuda/workspace.h"
#include "tests/simt/test_launch.h"
#include "tests/support/expect_error.h"

namespace tessera::cuda {
namespace {

__global__ void add_kernel(int* value, int what) { *value += what; }

void add(const Visible<int>& to, int what) {
  launch("add", one_block(1), add_kernel, to.get(), what);
}

TEST(Graphs, DoNothingWhenRecordedAndAllWhenLaunched) {
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

TEST(Graphs, AreLaunchedInPartsWhereTheyWereCut) {
  const Visible<int> value(1);
  const Graph graph([&](const Graph::Cut& cut) {
    add(value, 1);
    cut();
    add(value, 2);
    cut();
    cut();  // between them there is nothing
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

TEST(Graphs, LeaveTheStreamAsItWasAfterAnExceptionInALaterPart) {
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

TEST(LazyGraphs, RunInTheirTurnEvenWhenGone) {
  const Environment lazy("TESSERA_SIMT_LAZY", "1");
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

TEST(Graphs, HoldNothingThatTheHostWaitsFor) {
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
  // An error that nobody looked at.
  test::expect_error([&] { const Graph graph([] { cudaStreamQuery(stream()); }); },
                     {"cudaErrorStreamCaptureInvalidated"});
  add(value, 3);
  EXPECT_EQ(value[0], 3);
}

TEST(Graphs, LeaveTheStreamAsItWasAfterAnException) {
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

TEST(Graphs, CanNotLetTheWorkspaceGrow) {
  workspace(1);
  const int64_t moves = workspace_moves();
  const Graph fits([] { workspace(1); });
  test::expect_error([] { const Graph graph([] { workspace(size_t{1} << 24); }); },
                     {"scratch memory has to grow while a CUDA graph is recorded"});
  EXPECT_EQ(workspace_moves(), moves);
  workspace(size_t{1} << 24);
  EXPECT_EQ(workspace_moves(), moves + 1);
}

}  // namespace
}  // namespace tessera::cuda
