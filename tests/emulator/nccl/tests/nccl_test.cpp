// Tests the emulated NCCL through its own functions.

#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <set>
#include <string_view>

#include "tests/emulator/nccl/tests/ranks.h"

namespace tessera::cuda {
namespace {

TEST(Nccl, SumsInEagerAndLazyStreams) {
  for (const char* lazy : {"0", "1"}) {
    const Environment setting("TESSERA_EMULATOR_LAZY", lazy);
    run_ranks(4, [](NcclRank& rank) {
      rank.set({1.0f, static_cast<float>(rank.rank)});
      EXPECT_EQ(rank.all_reduce(), ncclSuccess);
      EXPECT_EQ(rank.all_reduce(), ncclSuccess);
      const std::vector<float> sums = rank.get();
      EXPECT_EQ(sums[0], 16.0f);
      EXPECT_EQ(sums[1], 24.0f);
      rank.finish();
    });
  }
}

/// Whether the host of a rank continues after its first all-reduce before other ranks call theirs.
bool first_call_returns_alone() {
  std::atomic<bool> returned = false, late = false;
  run_ranks(2, [&](NcclRank& rank) {
    if (rank.rank == 0) {
      EXPECT_EQ(rank.all_reduce(), ncclSuccess);
      returned = true;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      late = !returned;
      EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    }
    rank.get();
    rank.finish();
  });
  return !late;
}

TEST(Nccl, FirstCallWaitsForOtherRanksUnlessConnectedFromStart) {
  for (const char* at_runtime : {"0", "1"}) {
    const Environment setting("NCCL_RUNTIME_CONNECT", at_runtime);
    EXPECT_EQ(first_call_returns_alone(), at_runtime == std::string_view("0"));
  }
}

TEST(Nccl, DropsNanFromMaxima) {
  run_ranks(2, [](NcclRank& rank) {
    rank.set({rank.rank == 0 ? NAN : 3.0f, NAN});
    EXPECT_EQ(rank.all_reduce(ncclMax), ncclSuccess);
    EXPECT_EQ(rank.get()[0], 3.0f);
    EXPECT_TRUE(std::isnan(rank.get()[1]));
    rank.finish();
  });
}

// Sums 1 and three times 2⁻⁸, half a unit in the last place. The sum of each element starts at a
// different rank.
TEST(Nccl, RoundsEachPartialSumOfBf16) {
  const Environment nvls("NCCL_NVLS_ENABLE", "0");
  run_ranks(4, [](NcclRank& rank) {
    std::vector<uint16_t> bits(4, rank.rank == 0 ? 0x3f80 : 0x3b80);
    const size_t bytes = bits.size() * sizeof(uint16_t);
    check(cudaMemcpyAsync(rank.data, bits.data(), bytes, cudaMemcpyDefault, rank.stream), "copy");
    ncclAllReduce(rank.data, rank.data, 4, ncclBfloat16, ncclSum, rank.comm, rank.stream);
    check(cudaMemcpyAsync(bits.data(), rank.data, bytes, cudaMemcpyDefault, rank.stream), "copy");
    EXPECT_EQ(bits, (std::vector<uint16_t>{0x3f82, 0x3f82, 0x3f80, 0x3f80}));
    rank.finish();
  });
}

/// The number of different results of repeated sums of 1, −1, 2⁻²⁴ and 2⁻²⁴.
size_t different_sums() {
  std::set<float> sums;
  run_ranks(4, [&](NcclRank& rank) {
    const float terms[] = {1.0f, -1.0f, 0x1p-24f, 0x1p-24f};
    for (int i = 0; i < 20; ++i) {
      rank.set({terms[rank.rank]});
      EXPECT_EQ(rank.all_reduce(), ncclSuccess);
      const float sum = rank.get()[0];
      if (rank.rank == 0) sums.insert(sum);
    }
    rank.finish();
  });
  return sums.size();
}

TEST(Nccl, NvlsSumsInAnotherOrderEachTime) {
  struct Case {
    const char *enabled, *algorithms;
    bool is_deterministic;
  };
  for (const auto& [enabled, algorithms, is_deterministic] :
       {Case{"1", "Ring,NVLS", false}, Case{"1", "^Tree", false}, Case{"0", "^Tree", true},
        Case{"1", "^NVLS", true}, Case{"1", "Ring,Tree", true}}) {
    const Environment nvls("NCCL_NVLS_ENABLE", enabled), algorithm("NCCL_ALGO", algorithms);
    EXPECT_EQ(different_sums() == 1, is_deterministic) << enabled << " " << algorithms;
  }
}

TEST(Nccl, RefusesTwoRanksOnOneGpu) {
  run_ranks(
      2,
      [](NcclRank& rank) {
        rank.use_gpu(0);
        EXPECT_EQ(rank.connect(), ncclInvalidUsage);
        EXPECT_STREQ(ncclGetLastError(nullptr),
                     "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0");
      },
      /*connects=*/false);
}

TEST(Nccl, AbortFailsOnOtherRanks) {
  run_ranks(3, [](NcclRank& rank) {
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    rank.get();
    if (rank.rank == 2) return static_cast<void>(ncclCommAbort(rank.comm));
    rank.all_reduce();
    EXPECT_EQ(rank.wait_for_failure(), ncclRemoteError);
    EXPECT_NE(std::string(ncclGetLastError(rank.comm)).find("rank 2"), std::string::npos);
    ncclCommAbort(rank.comm);
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);  // pending work has ended
  });
}

/// Captures what `body` enqueues on the rank's stream.
cudaGraphExec_t captured(const NcclRank& rank, const std::function<void()>& body) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal), "capture");
  body();
  check(cudaStreamEndCapture(rank.stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph), "cudaGraphInstantiate");
  cudaGraphDestroy(graph);
  return exec;
}

TEST(Nccl, RunsInsideAndOutsideGraphs) {
  const Environment registration("NCCL_GRAPH_REGISTER", "0");
  for (const char* lazy : {"0", "1"}) {
    const Environment setting("TESSERA_EMULATOR_LAZY", lazy);
    run_ranks(3, [](NcclRank& rank) {
      rank.set({1.0f});
      EXPECT_EQ(rank.all_reduce(), ncclSuccess);
      const cudaGraphExec_t graph = captured(rank, [&] {
        EXPECT_EQ(rank.all_reduce(), ncclSuccess);
        EXPECT_EQ(rank.all_reduce(), ncclSuccess);
      });
      for (int i = 0; i < 2; ++i) check(cudaGraphLaunch(graph, rank.stream), "cudaGraphLaunch");
      EXPECT_EQ(rank.all_reduce(), ncclSuccess);
      EXPECT_EQ(rank.get()[0], 729.0f);  // 3⁶
      cudaGraphExecDestroy(graph);
      rank.finish();
    });
  }
}

// --- several communicators

/// Two ranks call all-reduces of two communicators on streams of their own. Nothing runs until both
/// have called both.
void reduce_on_two_communicators() {
  const Environment lazy("TESSERA_EMULATOR_LAZY", "1");
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::barrier both(2);
  run_ranks(2, [&](NcclRank& first) {
    NcclRank second{first.rank, first.ranks, id};
    ASSERT_NO_FATAL_FAILURE(second.start(first.rank));
    for (NcclRank* rank : {&first, &second}) {  // connects
      rank->set({1.0f});
      EXPECT_EQ(rank->all_reduce(), ncclSuccess);
      EXPECT_EQ(rank->get()[0], 2.0f);
      both.arrive_and_wait();
    }
    for (const NcclRank* rank : {&first, &second}) EXPECT_EQ(rank->all_reduce(), ncclSuccess);
    both.arrive_and_wait();
    for (const NcclRank* rank : {&second, &first}) EXPECT_EQ(rank->get()[0], 4.0f);
    first.finish();
    second.finish();
  });
}

TEST(Nccl, LaunchOrderKeepsCommunicatorsFromDeadlock) {
  const Environment order("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  reduce_on_two_communicators();
}

TEST(NcclDeathTest, CommunicatorsWithoutLaunchOrderDeadlock) {
  const Environment order("NCCL_LAUNCH_ORDER_IMPLICIT", "0");
  EXPECT_DEATH(reduce_on_two_communicators(),
               "deadlock, all threads wait for each other: .*, which other streams hold");
}

// --- misuse

void on_two_ranks(const std::function<void(NcclRank&)>& body) {
  run_ranks(2, [&](NcclRank& rank) {
    rank.all_reduce();
    body(rank);
    rank.get();
  });
}

TEST(Nccl, LeavesNotReadyBehindAfterGraphs) {
  const Environment registration("NCCL_GRAPH_REGISTER", "0");
  run_ranks(2, [](NcclRank& rank) {
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    const cudaGraphExec_t graph = captured(rank, [&] { rank.all_reduce(); });
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    cudaGraphExecDestroy(graph);
    rank.finish();
  });
}

TEST(NcclDeathTest, RanksMustMakeSameCall) {
  EXPECT_DEATH(
      on_two_ranks([](NcclRank& rank) { rank.all_reduce(ncclSum, rank.rank == 0 ? 3 : 4); }),
      "emulated NCCL: ranks of communicator [0-9]+ call different operations: rank [01] "
      "ncclAllReduce of [34] ncclFloat32 by ncclSum, and rank [01] ncclAllReduce of [34] "
      "ncclFloat32 by ncclSum, each as its call 1");
  EXPECT_DEATH(
      on_two_ranks([](NcclRank& rank) { rank.all_reduce(rank.rank == 0 ? ncclSum : ncclMax); }),
      "by ncclSum.*by ncclMax|by ncclMax.*by ncclSum");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 ncclBroadcast(rank.data, rank.data, 1, ncclFloat32, rank.rank, rank.comm,
                               rank.stream);
               }),
               "ncclBroadcast of 1 ncclFloat32 from rank [01], and rank [01] ncclBroadcast");
}

TEST(NcclDeathTest, AllRanksOrNoneMustCaptureCall) {
  const Environment registration("NCCL_GRAPH_REGISTER", "0");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 const auto call = [&] { rank.all_reduce(); };
                 if (rank.rank == 1) return call();
                 check(cudaGraphLaunch(captured(rank, call), rank.stream), "cudaGraphLaunch");
               }),
               "ncclSum, in a graph, and rank|ncclSum, in a graph, each as its call 1");
}

TEST(NcclDeathTest, GraphsMustNotRegisterBuffers) {
  const Environment registration("NCCL_GRAPH_REGISTER", "1");
  EXPECT_DEATH(
      on_two_ranks([](NcclRank& rank) { captured(rank, [&] { rank.all_reduce(); }); }),
      "ncclAllReduce of 8 ncclFloat32 by ncclSum, in a graph on rank [01] of communicator .*, "
      "registers buffers that are not from ncclMemAlloc: NCCL_GRAPH_REGISTER is not 0");
}

TEST(NcclDeathTest, AbortWaitsForGraphs) {
  const Environment registration("NCCL_GRAPH_REGISTER", "0");
  EXPECT_DEATH(
      on_two_ranks([](NcclRank& rank) {
        captured(rank, [&] { rank.all_reduce(); });
        ncclCommAbort(rank.comm);
      }),
      "ncclCommAbort of rank [01] of communicator .* waits for a graph that contains its calls");
}

TEST(NcclDeathTest, MessageSizesMustMatch) {
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 if (rank.rank == 0) ncclSend(rank.data, 3, ncclFloat32, 1, rank.comm, rank.stream);
                 if (rank.rank == 1) ncclRecv(rank.data, 4, ncclFloat32, 0, rank.comm, rank.stream);
               }),
               "ncclSend of 3 ncclFloat32 to rank 1.*ncclRecv of 4|ncclRecv of 4.*ncclSend of 3");
}

TEST(NcclDeathTest, BuffersMustBeOnRanksGpu) {
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 float pageable[4] = {};
                 ncclAllReduce(pageable, pageable, 4, ncclFloat32, ncclSum, rank.comm, rank.stream);
               }),
               "the 16 bytes of the send buffer are not all in one block of memory that the GPU");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) { rank.all_reduce(ncclSum, 9); }),
               "the 36 bytes of the send buffer are not all in one block");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 if (rank.rank == 0) return;
                 float* data = nullptr;
                 cudaSetDevice(0);
                 cudaMalloc(reinterpret_cast<void**>(&data), 4);
                 cudaSetDevice(1);
                 ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
               }),
               "are on GPU 0, but the rank is on GPU 1");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 cudaSetDevice(1 - rank.rank);
                 rank.all_reduce();
               }),
               "but the calling thread's is");
}

TEST(NcclDeathTest, BuffersMayOverlapOnlyInPlace) {
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 ncclAllReduce(rank.data, rank.data + 1, 4, ncclFloat32, ncclSum, rank.comm,
                               rank.stream);
               }),
               "the buffers overlap, and not as they do in place: the receive buffer begins 4 "
               "bytes after the send buffer");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 ncclAllGather(rank.data, rank.data, 4, ncclFloat32, rank.comm, rank.stream);
               }),
               "ncclAllGather of 4 ncclFloat32 on rank 1 .*: the buffers overlap");
}

TEST(NcclDeathTest, EndedCommunicatorsMustNotBeUsed) {
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 ncclCommAbort(rank.comm);
                 rank.all_reduce();
               }),
               "ncclAllReduce of 8 ncclFloat32 by ncclSum on rank [01] of communicator [0-9]+ \\(2 "
               "ranks\\), which has ended");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 ncclCommDestroy(rank.comm);
                 rank.all_reduce();
               }),
               "which has ended");
}

/// Each rank sends to the next one and receives from the previous one, into another element.
void send_around(NcclRank& rank) {
  const int next = (rank.rank + 1) % rank.ranks,
            previous = (rank.rank + rank.ranks - 1) % rank.ranks;
  EXPECT_EQ(ncclSend(rank.data, 1, ncclFloat32, next, rank.comm, rank.stream), ncclSuccess);
  EXPECT_EQ(ncclRecv(rank.data + 1, 1, ncclFloat32, previous, rank.comm, rank.stream), ncclSuccess);
}

TEST(Nccl, CallsOfAGroupStartTogether) {
  run_ranks(3, [](NcclRank& rank) {
    const auto own = static_cast<float>(rank.rank);
    rank.set({own, 9, own});
    for (int i = 0; i < 2; ++i) {  // before and after the ranks are connected
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      send_around(rank);
      ncclAllReduce(rank.data + 2, rank.data + 2, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
      EXPECT_EQ(rank.get()[1], i == 0 ? 9 : static_cast<float>((rank.rank + 2) % 3));
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    }
    EXPECT_EQ(rank.get(),
              (std::vector<float>{own, static_cast<float>((rank.rank + 2) % 3), 9, 0, 0, 0, 0, 0}));
    rank.finish();
  });
}

TEST(Nccl, AGroupWithAWrongCallStartsNone) {
  run_ranks(2, [](NcclRank& rank) {
    rank.set({1, 9});
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    send_around(rank);
    EXPECT_EQ(ncclSend(rank.data, 1, ncclFloat32, 2, rank.comm, rank.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_EQ(rank.get()[1], 9);
    rank.finish();
  });
}

TEST(NcclDeathTest, MessagesInBothDirectionsNeedAGroup) {
  EXPECT_DEATH(on_two_ranks(send_around), "deadlock.* connects for ncclSend of 1 ncclFloat32 to");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 ncclGroupStart();
                 send_around(rank);
                 ncclGroupEnd();
                 send_around(rank);  // connected
                 cudaStreamSynchronize(rank.stream);
               }),
               "deadlock.* at ncclSend of 1 ncclFloat32 to rank [01], which other streams hold");
}

/// Both ranks send and nobody receives; connections exist.
void send_both_ways(NcclRank& rank) {
  const int peer = 1 - rank.rank;
  const auto send = [&] { ncclSend(rank.data, 1, ncclFloat32, peer, rank.comm, rank.stream); };
  const auto receive = [&] { ncclRecv(rank.data, 1, ncclFloat32, peer, rank.comm, rank.stream); };
  rank.rank == 0 ? send() : receive();
  rank.rank == 0 ? receive() : send();
  send();
}

constexpr const char* kBothWait =
    "deadlock, all threads wait for each other: rank 0 of communicator [0-9]+ at ncclSend of 1 "
    "ncclFloat32 to rank 1, which rank 1 did not call; rank 1 of communicator [0-9]+ at ncclSend "
    "of 1 ncclFloat32 to rank 0, which rank 0 did not call";

TEST(NcclDeathTest, ReportsDeadlockOfWaitingRanks) {
  EXPECT_DEATH(on_two_ranks(send_both_ways), kBothWait);
}

TEST(NcclDeathTest, ReportsDeadlockOfPollingRanks) {
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 send_both_ways(rank);
                 while (cudaStreamQuery(rank.stream) == cudaErrorNotReady) {
                   std::this_thread::sleep_for(std::chrono::milliseconds(1));
                 }
               }),
               kBothWait);
}

}  // namespace
}  // namespace tessera::cuda
