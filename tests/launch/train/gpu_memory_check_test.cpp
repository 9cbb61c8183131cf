#include "launch/train/memory/gpu_memory_check.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

constexpr size_t kGiB = size_t{1} << 30;

/// 10 GiB of weights, and 1 GiB of activations per sequence of a micro-batch.
MemoryPlan plan_for(int64_t micro_batch) {
  MemoryPlan plan;
  plan.lines = {{"weights", 10 * kGiB},
                {"master weights", 0},
                {"activations", static_cast<size_t>(micro_batch) * kGiB}};
  return plan;
}

std::string why(int64_t micro_batch, size_t free_bytes) {
  return gpu_memory_shortage(plan_for(micro_batch), free_bytes, micro_batch, plan_for).value_or("");
}

TEST(GpuMemoryCheck, ReturnsNothingIfThePlanFits) {
  EXPECT_EQ(why(8, 18 * kGiB + kUnplannedBytes), "");
  EXPECT_NE(why(8, 18 * kGiB + kUnplannedBytes - 1), "");
}

TEST(GpuMemoryCheck, NamesTheLargestMicroBatchThatFits) {
  EXPECT_EQ(why(8, 16 * kGiB),
            "a rank needs 18.0 GiB of GPU memory (weights 10.0 GiB, activations 8.0 GiB) and 512.0 "
            "MiB for CUDA itself, but 16.0 GiB are free; batch.micro=4 would fit");
  EXPECT_NE(why(6, 15 * kGiB).find("batch.micro=3 would fit"), std::string::npos);
}

TEST(GpuMemoryCheck, SuggestsRemedyIfNoMicroBatchFits) {
  EXPECT_NE(why(8, 5 * kGiB).find("no smaller batch.micro"), std::string::npos);
  EXPECT_NE(why(1, 11 * kGiB).find("parallel.tensor"), std::string::npos);
}

TEST(GpuMemoryCheck, IgnoresHostMemory) {
  MemoryPlan plan = plan_for(8);
  plan.lines.push_back({"batch", 5 * kGiB, /*in_host=*/true});
  EXPECT_EQ(plan.total(), 23 * kGiB);  // CPUs have only one memory
  EXPECT_EQ(plan.total_in_host(), 0U);
  plan.device = {DeviceType::cuda, 0};
  EXPECT_EQ(plan.total(), 18 * kGiB);
  EXPECT_EQ(plan.total_in_host(), 5 * kGiB);
  EXPECT_EQ(gpu_memory_shortage(plan, 18 * kGiB + kUnplannedBytes, 8, plan_for), std::nullopt);
  EXPECT_EQ(gpu_memory_shortage(plan, 17 * kGiB, 8, plan_for)->find("batch 5.0"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
