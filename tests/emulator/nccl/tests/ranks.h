#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/emulator/tests/test_launch.h"

/// Ranks for tests of the emulated NCCL.
namespace tessera::cuda {

/// A thread with its own GPU, stream and, after connect(), communicator.
struct NcclRank {
  int rank = 0, ranks = 1;
  ncclUniqueId id = {};
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;  ///< kCount elements on the GPU

  static constexpr size_t kCount = 8;

  void use_gpu(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaMalloc(reinterpret_cast<void**>(&data), kCount * sizeof(float)), "cudaMalloc");
  }
  ncclResult_t connect() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    return ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
  }
  void start(int device) {
    use_gpu(device);
    ASSERT_EQ(connect(), ncclSuccess);
  }

  ncclResult_t state() const {
    ncclResult_t now = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &now), ncclSuccess);
    return now;
  }
  /// Polls until the communicator fails.
  ncclResult_t wait_for_failure() const {
    while (state() == ncclSuccess) std::this_thread::yield();
    return state();
  }

  ncclResult_t all_reduce(ncclRedOp_t op = ncclSum, size_t count = kCount) const {
    return ncclAllReduce(data, data, count, ncclFloat32, op, comm, stream);
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

  void finish() const { EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess); }
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
        ASSERT_NO_FATAL_FAILURE(mine.start(rank));
      }
      body(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tessera::cuda
