// Tests the emulated NCCL through its own functions.

#include <cmath>

#include "tests/emulator/nccl/ranks.h"

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

TEST(Nccl, RefusesCallsBeforeReady) {
  run_ranks(
      2,
      [](NcclRank& rank) {
        rank.start(rank.rank);
        EXPECT_EQ(rank.all_reduce(), ncclInvalidArgument);
        EXPECT_STREQ(ncclGetLastError(rank.comm),
                     "Attempt to use communicator before the previous operation returned "
                     "ncclSuccess");
        EXPECT_EQ(rank.settle(), ncclSuccess);
        rank.finish();
      },
      /*connects=*/false);
}

// An event recorded right after the call would not wait for it.
TEST(Nccl, EnqueuesFirstCallOfKindAfterConnecting) {
  run_ranks(2, [](NcclRank& rank) {
    const auto call = [&] {
      return ncclAllReduce(rank.data, rank.data, 1, ncclFloat32, ncclSum, rank.comm, rank.stream);
    };
    rank.set({1.0f});
    EXPECT_EQ(call(), ncclInProgress);
    EXPECT_EQ(rank.get()[0], 1.0f);
    EXPECT_EQ(rank.settle(), ncclSuccess);
    EXPECT_EQ(rank.get()[0], 2.0f);
    EXPECT_EQ(call(), ncclSuccess);
    EXPECT_EQ(rank.get()[0], 4.0f);
    rank.finish();
  });
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
  run_ranks(4, [](NcclRank& rank) {
    std::vector<uint16_t> bits(4, rank.rank == 0 ? 0x3f80 : 0x3b80);
    const size_t bytes = bits.size() * sizeof(uint16_t);
    check(cudaMemcpyAsync(rank.data, bits.data(), bytes, cudaMemcpyDefault, rank.stream), "copy");
    ncclAllReduce(rank.data, rank.data, 4, ncclBfloat16, ncclSum, rank.comm, rank.stream);
    EXPECT_EQ(rank.settle(), ncclSuccess);
    check(cudaMemcpyAsync(bits.data(), rank.data, bytes, cudaMemcpyDefault, rank.stream), "copy");
    EXPECT_EQ(bits, (std::vector<uint16_t>{0x3f82, 0x3f82, 0x3f80, 0x3f80}));
    rank.finish();
  });
}

TEST(Nccl, RefusesTwoRanksOnOneGpu) {
  run_ranks(
      2,
      [](NcclRank& rank) {
        rank.start(0);
        EXPECT_EQ(rank.settle(), ncclInvalidUsage);
        EXPECT_STREQ(ncclGetLastError(rank.comm),
                     "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0");
        ncclCommAbort(rank.comm);
      },
      /*connects=*/false);
}

TEST(Nccl, AbortFailsOnOtherRanks) {
  run_ranks(3, [](NcclRank& rank) {
    EXPECT_EQ(rank.all_reduce(), ncclSuccess);
    rank.get();
    if (rank.rank == 2) return static_cast<void>(ncclCommAbort(rank.comm));
    rank.all_reduce();
    while (rank.state() == ncclSuccess) std::this_thread::yield();
    EXPECT_EQ(rank.state(), ncclRemoteError);
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

// --- misuse

void on_two_ranks(const std::function<void(NcclRank&)>& body) {
  run_ranks(2, [&](NcclRank& rank) {
    rank.all_reduce();
    body(rank);
    rank.get();
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
                 rank.settle();
               }),
               "ncclBroadcast of 1 ncclFloat32 from rank [01], and rank [01] ncclBroadcast");
}

TEST(NcclDeathTest, AllRanksOrNoneMustCaptureCall) {
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) {
                 const auto call = [&] { rank.all_reduce(); };
                 if (rank.rank == 1) return call();
                 check(cudaGraphLaunch(captured(rank, call), rank.stream), "cudaGraphLaunch");
               }),
               "ncclSum, in a graph, and rank|ncclSum, in a graph, each as its call 1");
}

TEST(NcclDeathTest, AbortWaitsForGraphs) {
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
                 rank.settle();
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
                 ncclCommFinalize(rank.comm);
                 rank.all_reduce();
               }),
               "which is finalized");
  EXPECT_DEATH(on_two_ranks([](NcclRank& rank) { ncclCommDestroy(rank.comm); }),
               "which is not finalized");
}

/// Both ranks send and nobody receives; connections exist.
void send_both_ways(NcclRank& rank) {
  const int peer = 1 - rank.rank;
  const auto send = [&] {
    ncclSend(rank.data, 1, ncclFloat32, peer, rank.comm, rank.stream);
    rank.settle();
  };
  const auto receive = [&] {
    ncclRecv(rank.data, 1, ncclFloat32, peer, rank.comm, rank.stream);
    rank.settle();
  };
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
