#include <vector>

#include "core/cuda/dynamic_shared.h"
#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {
namespace {

__global__ void coordinates_kernel(int* out) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  atomicAdd(&out[block * threads + thread], static_cast<int>(1 + thread + 100 * block));
}

TEST(Execution, EachThreadOfEachBlockRunsOnce) {
  const Visible<int> out(24 * 30);
  launch("coordinates", {dim3(2, 3, 4), dim3(5, 3, 2)}, coordinates_kernel, out.get());
  for (int block = 0; block < 24; ++block) {
    for (int thread = 0; thread < 30; ++thread) {
      ASSERT_EQ(out[block * 30 + thread], 1 + thread + 100 * block);
    }
  }
}

__global__ void block_sum_kernel(const int* in, int* out) {
  const int64_t i = global_thread();
  const int sum = block_sum(in[i]);
  out[i] = sum + block_sum(in[i]);
}

TEST(Execution, ShufflesAndBarriersSumBlocks) {
  constexpr int kBlocks = 3, kThreads = 160;
  const Visible<int> in(kBlocks * kThreads), out(kBlocks * kThreads);
  for (int i = 0; i < kBlocks * kThreads; ++i) in.get()[i] = i * i % 101;
  launch("block sum", {dim3(kBlocks), dim3(kThreads)}, block_sum_kernel, in.get(), out.get());
  for (int i = 0; i < kBlocks * kThreads; ++i) {
    int sum = 0;
    for (int k = 0; k < kThreads; ++k) sum += in[i / kThreads * kThreads + k];
    ASSERT_EQ(out[i], 2 * sum) << i;
  }
}

__global__ void shuffles_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  int* mine = out + 8 * lane;
  mine[0] = __shfl_sync(kWholeWarp, lane, 7);
  mine[1] = __shfl_sync(kWholeWarp, lane, 3, 8);
  mine[2] = __shfl_xor_sync(kWholeWarp, lane, 5);
  mine[3] = __shfl_down_sync(kWholeWarp, lane, 4);
  mine[4] = __shfl_up_sync(kWholeWarp, lane, 4, 16);
  mine[5] = static_cast<int>(__ballot_sync(kWholeWarp, lane % 3 == 0));
  mine[6] = __any_sync(kWholeWarp, lane == 9);
  mine[7] = __all_sync(kWholeWarp, lane != 9);
}

TEST(Execution, ShufflesAndVotesMatchCuda) {
  const Visible<int> out(8 * 32);
  launch("shuffles", one_block(32), shuffles_kernel, out.get());
  for (int lane = 0; lane < 32; ++lane) {
    const int expected[] = {7,
                            lane / 8 * 8 + 3,
                            lane ^ 5,
                            lane < 28 ? lane + 4 : lane,
                            lane % 16 < 4 ? lane : lane - 4,
                            0x49249249,
                            1,
                            0};
    for (int i = 0; i < 8; ++i) EXPECT_EQ(out[8 * lane + i], expected[i]) << lane << ", " << i;
  }
}

__global__ void halves_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  int x = lane;
  // One half of the warp exchanges more often than the other, then both together.
  const int rounds = lane < 16 ? 3 : 2;
  for (int i = 0; i < rounds; ++i) x += __shfl_xor_sync(mask, x, 1);
  out[lane] = __shfl_xor_sync(kWholeWarp, x, 16);
}

TEST(Execution, PartsOfWarpExchangeIndependently) {
  const Visible<int> out(32);
  launch("halves", one_block(32), halves_kernel, out.get());
  for (int lane = 0; lane < 32; ++lane) {
    const int other = lane ^ 16, pair = 2 * other / 2 * 2 / 2 + (other ^ 1);
    EXPECT_EQ(out[lane], other < 16 ? 4 * pair : 2 * pair) << lane;
  }
}

__global__ void reverse_kernel(const double* in, double* out) {
  auto* held = dynamic_shared<double>();
  held[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

TEST(Execution, DynamicSharedMemoryHasRequestedSize) {
  constexpr int kThreads = 1000;
  const Visible<double> in(kThreads), out(kThreads);
  for (int i = 0; i < kThreads; ++i) in.get()[i] = i;
  launch("reverse", one_block(kThreads, kThreads * sizeof(double)), reverse_kernel, in.get(),
         out.get());
  for (int i = 0; i < kThreads; ++i) ASSERT_EQ(out[i], kThreads - 1 - i);
}

__global__ void unwritten_kernel(float* out) {
  __shared__ float declared[32];
  if (threadIdx.x == 0) declared[5] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = declared[threadIdx.x];
  out[32 + threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
}

TEST(Execution, SharedMemoryIsNanUntilWritten) {
  const Visible<float> out(64);
  for (int launches = 0; launches < 2; ++launches) {
    launch("unwritten", one_block(32, 32 * sizeof(float)), unwritten_kernel, out.get());
    for (int i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(out[i]), i != 5) << i;
  }
}

// Each thread reads what its neighbors wrote, with or without a barrier in between.
template <bool kWithBarrier>
__global__ void neighbours_kernel(int* out) {
  __shared__ int held[64];
  held[threadIdx.x] = 1;
  if (kWithBarrier) __syncthreads();
  out[threadIdx.x] = held[(threadIdx.x + 63) % 64] + held[(threadIdx.x + 1) % 64];
}

// Blocks that read what other blocks of the same grid write.
__global__ void next_block_kernel(int* values) {
  values[blockIdx.x] = 1 + values[(blockIdx.x + 1) % gridDim.x];
}

std::vector<int> run_in_order(const char* order, void (*kernel)(int*), const LaunchShape& shape) {
  const Environment environment("TESSERA_EMULATOR_ORDER", order);
  const Visible<int> out(64);
  launch("ordered", shape, kernel, out.get());
  return {out.get(), out.get() + 64};
}

TEST(Order, RevealsMissingBarrier) {
  const std::vector<int> right(64, 2);
  int wrong = 0;
  for (const char* order : {"forward", "reverse", "shuffle:1", "shuffle:2"}) {
    EXPECT_EQ(run_in_order(order, neighbours_kernel<true>, one_block(64)), right) << order;
    wrong += run_in_order(order, neighbours_kernel<false>, one_block(64)) != right;
  }
  EXPECT_GT(wrong, 0);
}

TEST(Order, RevealsDependentBlocks) {
  const LaunchShape blocks{dim3(64), dim3(1)};
  EXPECT_NE(run_in_order("forward", next_block_kernel, blocks),
            run_in_order("reverse", next_block_kernel, blocks));
}

TEST(OrderDeathTest, RefusesUnknownOrder) {
  EXPECT_DEATH(run_in_order("sideways", neighbours_kernel<true>, one_block(64)),
               "TESSERA_EMULATOR_ORDER is \"sideways\": choose forward, reverse or shuffle:SEED");
}

}  // namespace
}  // namespace tessera::cuda
