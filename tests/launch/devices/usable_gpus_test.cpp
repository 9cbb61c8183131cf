#include "launch/devices/usable_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kDefault = "80-real,90a-real,100";
const SeenGpu kV100{"Tesla V100-SXM2-16GB", 7, 0};
const SeenGpu kA100{"NVIDIA A100-SXM4-80GB", 8, 0};
const SeenGpu kH200{"NVIDIA H200", 9, 0};

TEST(UsableGpus, NamesGpuWithTooLowCapability) {
  EXPECT_EQ(why_unusable(1, kV100, kDefault),
            "GPU 1, Tesla V100-SXM2-16GB, has compute capability 7.0, but Tessera's kernels need "
            "8.0 or later");
}

TEST(UsableGpus, NamesArchitectureToBuild) {
  EXPECT_EQ(
      why_unusable(0, kA100, "90a-real"),
      "GPU 0, NVIDIA A100-SXM4-80GB, has compute capability 8.0, but this build only has code for "
      "90a-real: build with -DCMAKE_CUDA_ARCHITECTURES=80");
  EXPECT_EQ(why_unusable(0, kH200, "90a-real"), std::nullopt);
}

TEST(UsableGpus, KeepTheirIndices) {
  const std::vector<SeenGpu> seen = {kV100, kA100, kV100, kH200};
  const UsableGpus usable = usable_gpus(seen, kDefault);
  EXPECT_THAT(usable.indices, ElementsAre(1, 3));
  EXPECT_EQ(usable.why_not,
            *why_unusable(0, kV100, kDefault) + "; " + *why_unusable(2, kV100, kDefault));
  EXPECT_THAT(usable_gpus(std::vector{kV100}, kDefault).indices, IsEmpty());
  EXPECT_EQ(usable_gpus(std::vector{kH200}, kDefault).why_not, "");
  EXPECT_THAT(usable_gpus({}, kDefault).indices, IsEmpty());
}

}  // namespace
}  // namespace tessera
