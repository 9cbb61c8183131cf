#include "launch/train/memory/host_memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using testing::HasSubstr;

constexpr size_t kGiB = size_t{1} << 30;

MemoryPlan plan_of(Device device = kCpu) {
  MemoryPlan plan;
  plan.device = device;
  plan.lines = {{"weights", 4 * kGiB},
                {"master weights", 0},
                {kCheckpointCopyLine, 3 * kGiB, /*in_host=*/true},
                {"batch", 1 * kGiB, /*in_host=*/true}};
  return plan;
}

TEST(HostMemoryCheck, ReturnsNothingIfThePlansFit) {
  EXPECT_EQ(host_memory_shortage({2, 16 * kGiB, 6 * kGiB, 16 * kGiB}, plan_of()), std::nullopt);
}

TEST(HostMemoryCheck, SuggestsSavingWithoutACopy) {
  EXPECT_EQ(host_memory_shortage({2, 16 * kGiB, 6 * kGiB, 10 * kGiB}, plan_of()),
            "2 ranks on a host need 16.0 GiB of its memory, but 10.0 GiB are available (a rank "
            "needs weights 4.0 GiB, checkpoint copy 3.0 GiB, batch 1.0 GiB); it would fit with "
            "checkpoint.background=false, which waits for the disk instead of copying");
}

TEST(HostMemoryCheck, SuggestsFewerRanks) {
  EXPECT_THAT(
      *host_memory_shortage({1, 8 * kGiB, 3 * kGiB, 4 * kGiB}, plan_of()),
      AllOf(HasSubstr("1 rank on a host needs 8.0 GiB"), HasSubstr("fewer ranks per host")));
}

TEST(HostMemoryCheck, CountsOnlyHostLinesOfAGpuRun) {
  EXPECT_THAT(
      *host_memory_shortage({1, 4 * kGiB, 3 * kGiB, 2 * kGiB}, plan_of({DeviceType::cuda, 0})),
      HasSubstr("(a rank needs checkpoint copy 3.0 GiB, batch 1.0 GiB)"));
}

// All ranks of the test are on this host.
TEST(HostMemoryCheck, SumsRanksOfHost) {
  run_thread_ranks(3, [](Communicator& world) {
    MemoryPlan small = plan_of();
    for (MemoryPlan::Line& line : small.lines) line.bytes >>= 20;  // some KiB
    EXPECT_EQ(find_host_memory_shortage(small, 16 * kGiB, world), std::nullopt);
    MemoryPlan large = plan_of();
    large.lines.push_back({"activations", size_t{1} << 50});
    const auto why = find_host_memory_shortage(large, 16 * kGiB, world);
    EXPECT_THAT(*why, HasSubstr("3 ranks on a host need 3072.0 TiB"));
    EXPECT_THAT(*why, HasSubstr("fewer ranks per host"));
    EXPECT_EQ(find_host_memory_shortage(large, std::nullopt, world), std::nullopt);  // unknown
  });
}

}  // namespace
}  // namespace tessera
