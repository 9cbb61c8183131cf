#include "launch/devices/device_summary.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"

namespace tessera {
namespace {

constexpr size_t kGiB = size_t{1} << 30;

DevicePlan on_gpus(int gpus, int hosts) {
  DevicePlan plan;
  plan.on_gpus = true;
  plan.gpus = gpus;
  plan.hosts = hosts;
  return plan;
}

/// One H100 per rank, with `a_host` ranks on each of the hosts node0, node1, ...
std::vector<RankGpu> h100s(int ranks, int a_host) {
  std::vector<RankGpu> gpus;
  for (int rank = 0; rank < ranks; ++rank) {
    gpus.push_back({"NVIDIA H100 80GB HBM3", 79 * kGiB + kGiB / 5,
                    fmt::format("node{}", rank / a_host), rank % a_host});
  }
  return gpus;
}

TEST(DeviceSummary, NamesGpusMemoryAndTransport) {
  EXPECT_EQ(device_summary(on_gpus(4, 1), 4, h100s(4, 4), "NCCL 2.28.9"),
            "4 ranks on 4 GPUs: NVIDIA H100 80GB HBM3, 79.2 GiB each; NCCL 2.28.9\n"
            "  ranks 0 to 3 on node0: GPU 0, 1, 2, 3");
  EXPECT_EQ(device_summary(on_gpus(1, 1), 1, h100s(1, 1), "self, staged"),
            "1 rank on 1 GPU: GPU 0, NVIDIA H100 80GB HBM3, 79.2 GiB; self, staged");
  EXPECT_EQ(device_summary(on_gpus(3, 2), 3, h100s(3, 2), "NCCL 2.28.9"),
            "3 ranks on 3 GPUs of 2 hosts: NVIDIA H100 80GB HBM3, 79.2 GiB each; NCCL 2.28.9\n"
            "  ranks 0 to 1 on node0: GPU 0, 1\n"
            "  rank 2 on node1: GPU 0");
}

TEST(DeviceSummary, NamesEachRanksGpuWhenTheyDiffer) {
  const std::vector<RankGpu> gpus = {{"A", 80 * kGiB, "node0", 1}, {"A", 40 * kGiB, "node0", 0}};
  EXPECT_EQ(device_summary(on_gpus(2, 1), 2, gpus, "mpi, staged"),
            "2 ranks on 2 GPUs; mpi, staged\n"
            "  rank 0 on node0: GPU 1, A, 80.0 GiB\n"
            "  rank 1 on node0: GPU 0, A, 40.0 GiB");
}

TEST(DeviceSummary, NamesSharedGpu) {
  const RankGpu h200{"NVIDIA H200", 140 * kGiB, "node0", 0};
  EXPECT_EQ(device_summary(on_gpus(1, 1), 2, std::vector(2, h200), "mpi, staged"),
            "2 ranks on 1 GPU: NVIDIA H200, 140.0 GiB; mpi, staged\n"
            "  ranks 0 to 1 on node0: GPU 0, 0");
}

TEST(DeviceSummary, NamesCpus) {
  EXPECT_EQ(device_summary({}, 4, {}, "mpi"), "4 ranks on CPUs; mpi");
  EXPECT_EQ(device_summary({}, 1, {}, "self"), "1 rank on the CPU; self");
}

TEST(DeviceSummary, RankGpuRoundTripsAsText) {
  const RankGpu back =
      parse_rank_gpu(to_string(RankGpu{"NVIDIA H100 80GB HBM3", 5, "node1", 3, 132}));
  EXPECT_EQ(back.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(back.bytes, 5u);
  EXPECT_EQ(back.host, "node1");
  EXPECT_EQ(back.index, 3);
  EXPECT_EQ(back.multiprocessors, 132);
  EXPECT_THROW(parse_rank_gpu("x"), Error);
}

}  // namespace
}  // namespace tessera
