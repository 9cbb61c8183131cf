// Errors that make a GPU hang or return anything must end the emulator with a message.

#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {
namespace {

void run(const char* name, void (*kernel)(), unsigned threads) {
  launch(name, one_block(threads), kernel);
}

__global__ void ended_kernel() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}

TEST(BarriersDeathTest, BarrierNeedsAllThreads) {
  EXPECT_DEATH(run("early return", ended_kernel, 64),
               "emulated GPU: kernel 'early return', block \\(0, 0, 0\\), thread \\(63, 0, 0\\): a "
               "barrier with ended threads: thread \\(63, 0, 0\\) is at the __syncthreads of "
               "barriers_test.cpp:[0-9]+, but thread \\(5, 0, 0\\) has ended");
}

__global__ void divergent_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(BarriersDeathTest, ThreadsMustReachSameBarrier) {
  EXPECT_DEATH(run("divergent", divergent_kernel, 64),
               "kernel 'divergent'.*: a barrier in divergent code: thread \\(63, 0, 0\\) is at the "
               "__syncthreads of barriers_test.cpp:[0-9]+, but thread \\(0, 0, 0\\) is at the "
               "__syncthreads of barriers_test.cpp:[0-9]+");
}

__global__ void absent_lane_kernel() {
  if (threadIdx.x != 3) __shfl_xor_sync(kWholeWarp, 1, 1);
}

TEST(BarriersDeathTest, ExchangeNeedsAllLanesOfMask) {
  EXPECT_DEATH(run("absent", absent_lane_kernel, 32),
               "an exchange with absent lanes: thread \\(0, 0, 0\\) is at the warp's exchange of "
               "barriers_test.cpp:[0-9]+ with mask 0xffffffff, but thread \\(3, 0, 0\\) has ended");
}

__global__ void whole_warp_kernel() { __ballot_sync(kWholeWarp, 1); }

TEST(BarriersDeathTest, MaskMustFitBlock) {
  EXPECT_DEATH(run("short", whole_warp_kernel, 40),
               "an exchange with absent lanes: .*, but the block ends before lane 8");
}

__global__ void left_out_kernel() { __syncwarp(0x0000ffffu); }

TEST(BarriersDeathTest, LaneMustBeInItsMask) {
  EXPECT_DEATH(run("left out", left_out_kernel, 32),
               "thread \\(16, 0, 0\\): this lane is at an exchange whose mask excludes it");
}

__global__ void outside_kernel() {
  if (threadIdx.x < 16) __shfl_sync(0x0000ffffu, 1, 20);
}

TEST(BarriersDeathTest, ShuffleSourceMustBeInMask) {
  EXPECT_DEATH(run("outside", outside_kernel, 32), "a shuffle reads a lane that its mask excludes");
}

__global__ void two_places_kernel() {
  if (threadIdx.x % 2 == 0) {
    __shfl_xor_sync(kWholeWarp, 1, 2);
  } else {
    __shfl_xor_sync(kWholeWarp, 1, 2);
  }
}

TEST(BarriersDeathTest, LanesMustReachSameExchange) {
  EXPECT_DEATH(run("two places", two_places_kernel, 32),
               "lanes at different exchanges: thread \\(31, 0, 0\\) is at the warp's exchange of "
               "barriers_test.cpp:[0-9]+ .*, but thread \\(0, 0, 0\\) is at ");
}

__global__ void two_masks_kernel() { __syncwarp(threadIdx.x < 16 ? kWholeWarp : 0xffff0001u); }

TEST(BarriersDeathTest, LanesMustAgreeOnMask) {
  EXPECT_DEATH(run("two masks", two_masks_kernel, 32), "lanes at different exchanges: ");
}

__global__ void mixed_kernel() {
  if (threadIdx.x < 10) {
    __syncthreads();
  } else {
    __shfl_xor_sync(kWholeWarp, 1, 1);
  }
}

TEST(BarriersDeathTest, BarrierDoesNotMatchExchange) {
  EXPECT_DEATH(run("mixed", mixed_kernel, 32),
               "an exchange with absent lanes: .* is at the warp's exchange of .*, but thread "
               "\\(0, 0, 0\\) is at the __syncthreads of");
}

}  // namespace
}  // namespace tessera::cuda
