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

TEST(DeviceSummary, NamesGpusMemoryAndTransport) {
  const RankGpu h100{"NVIDIA H100 80GB HBM3", 79 * kGiB + kGiB / 5};
  EXPECT_EQ(device_summary(on_gpus(4, 1), 4, std::vector(4, h100), "NCCL 2.28.9"),
            "4 ranks on 4 GPUs: NVIDIA H100 80GB HBM3, 79.2 GiB each; NCCL 2.28.9");
  EXPECT_EQ(device_summary(on_gpus(1, 1), 1, std::vector(1, h100), "self, staged"),
            "1 rank on 1 GPU: NVIDIA H100 80GB HBM3, 79.2 GiB; self, staged");
  EXPECT_EQ(device_summary(on_gpus(16, 2), 16, std::vector(16, h100), "NCCL 2.28.9"),
            "16 ranks on 16 GPUs of 2 hosts: NVIDIA H100 80GB HBM3, 79.2 GiB each; NCCL 2.28.9");
}

TEST(DeviceSummary, TellsDifferentGpusApart) {
  const RankGpu small{"A", 40 * kGiB};
  const RankGpu large{"A", 80 * kGiB};
  EXPECT_EQ(device_summary(on_gpus(3, 1), 3, std::vector{large, small, large}, "mpi, staged"),
            "3 ranks on 3 GPUs: 2 ranks on A, 80.0 GiB each, 1 rank on A, 40.0 GiB each; "
            "mpi, staged");
}

TEST(DeviceSummary, OnCpus) {
  EXPECT_EQ(device_summary({}, 4, {}, "mpi"), "4 ranks on CPUs; mpi");
  EXPECT_EQ(device_summary({}, 1, {}, "self"), "1 rank on the CPU; self");
}

TEST(DeviceSummary, AGpuTravelsAsText) {
  const RankGpu back = parse_rank_gpu(to_string(RankGpu{"NVIDIA H100 80GB HBM3", 5}));
  EXPECT_EQ(back.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(back.bytes, 5u);
  EXPECT_THROW(parse_rank_gpu("x"), Error);
}

}  // namespace
}  // namespace tessera
