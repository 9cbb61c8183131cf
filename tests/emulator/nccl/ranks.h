#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tests/emulator/test_launch.h"

/// Ranks for tests of the emulated NCCL.
namespace tessera::cuda {

/// A thread with its own GPU, stream and, once connect() has returned, communicator.
struct NcclRank {
  int rank = 0, ranks = 1;
  ncclUniqueId id = {};
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;  ///< kCount elements on the GPU

  static constexpr size_t kCount = 8;

  void start(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)), "cudaMalloc");
    connect();
  }
  void connect() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), ncclInProgress);
  }

  ncclResult_t state() const {
    ncclResult_t now = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &now), ncclSuccess);
    return now;
  }
  /// Polls until nothing is in progress, for a minute at most.
  ncclResult_t settle() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    ncclResult_t now = state();
    while (now == ncclInProgress && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
      now = state();
    }
    return now;
  }

  ncclResult_t all_reduce(ncclRedOp_t op = ncclSum, size_t count = kCount) const {
    const ncclResult_t code = ncclAllReduce(data, data, count, ncclFloat32, op, comm, stream);
    return code == ncclInProgress ? settle() : code;
  }

  void set(std::vector<float> values) const {
    values.resize(kCount);
    check(cudaMemcpyAsync(data, values.data(), kCount * sizeof(float), cudaMemcpyDefault, stream),
          "copy");
  }
  std::vector<float> get() const {
    std::vector<float> values(kCount);
    check(cudaMemcpyAsync(values.data(), data, kCount * sizeof(float), cudaMemcpyDefault, stream),
          "copy");
    return values;
  }

  void finish() const {
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    EXPECT_EQ(settle(), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
};

/// Runs `body` on `ranks` threads, connected unless `connects` is false.
inline void run_ranks(int ranks, const std::function<void(NcclRank&)>& body, bool connects = true) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      NcclRank mine{rank, ranks, id};
      if (connects) {
        mine.start(rank);
        ASSERT_EQ(mine.settle(), ncclSuccess);
      }
      body(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tessera::cuda
