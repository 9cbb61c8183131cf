// Planted races between the threads of a block, which ThreadSanitizer must find, and the same
// kernels without them.

#include "core/cuda/dynamic_shared.h"
#include "core/cuda/mma.h"
#include "core/cuda/wgmma.h"
#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {
namespace {

/// How the threads of a kernel wait for each other.
enum class Wait { none, shuffle, warp, half_warps, block };

__device__ void wait_for_others(Wait wait) {
  switch (wait) {
    case Wait::none:
      return;
    case Wait::shuffle:  // passes values, but does not order accesses to memory
      __shfl_xor_sync(kWholeWarp, 1, 1);
      return;
    case Wait::warp:
      __syncwarp();
      return;
    case Wait::half_warps:
      __syncwarp(threadIdx.x % 32 < 16 ? 0x0000ffffu : 0xffff0000u);
      return;
    case Wait::block:
      __syncthreads();
  }
}

/// Each thread writes an element of shared memory and then reads that of another thread.
__global__ void exchange_kernel(Wait wait, unsigned distance, unsigned rounds, unsigned* out) {
  __shared__ unsigned values[64];
  for (unsigned round = 0; round < rounds; ++round) {
    values[threadIdx.x] = threadIdx.x + round;
    wait_for_others(wait);
    out[threadIdx.x] = values[threadIdx.x ^ distance];
  }
}

void exchange(Wait wait, unsigned distance, unsigned rounds = 1) {
  Visible<unsigned> out(64);
  launch("exchange", one_block(64), exchange_kernel, wait, distance, rounds, out.get());
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(out[i], (i ^ distance) + rounds - 1);
}

void expect_race(Wait wait, unsigned distance, unsigned rounds = 1) {
  EXPECT_EXIT(exchange(wait, distance, rounds), testing::ExitedWithCode(66),
              "data race(.|\n)*exchange_kernel")
      << "distance " << distance;
}

TEST(Races, BarriersOrderAccesses) {
  exchange(Wait::block, 32);
  exchange(Wait::warp, 1);
  exchange(Wait::half_warps, 1);
}

TEST(RacesDeathTest, FindsMissingBarriers) {
  expect_race(Wait::none, 1);
  expect_race(Wait::none, 32);
  expect_race(Wait::shuffle, 1);
}

TEST(RacesDeathTest, FindsBarriersThatAreTooNarrow) {
  expect_race(Wait::warp, 32);
  expect_race(Wait::half_warps, 16);
}

// A thread may write its element again before another has read it.
TEST(RacesDeathTest, FindsMissingBarrierBeforeNextRound) {
  expect_race(Wait::block, 32, 2);
  expect_race(Wait::warp, 1, 2);
}

/// All threads write one element of global memory.
__global__ void same_element_kernel(unsigned* out) { *out = threadIdx.x; }

TEST(RacesDeathTest, FindsWritesToSameElementByThreadsThatNeverWait) {
  const auto write = [] {
    Visible<unsigned> out(1);
    launch("same element", one_block(2), same_element_kernel, out.get());
  };
  EXPECT_EXIT(write(), testing::ExitedWithCode(66), "data race(.|\n)*same_element_kernel");
}

/// A row that lane 0 wrote is read by ldmatrix.
__global__ void matrix_kernel(bool waits, unsigned* out) {
  __shared__ bfloat16 rows[32 * 8];
  if (threadIdx.x == 0) {
    for (bfloat16& value : rows) value = bfloat16{};
  }
  if (waits) __syncwarp();
  uint32_t registers[4];
  load_matrices<false>(registers, rows + 8 * threadIdx.x);
  out[threadIdx.x] = registers[0];
}

TEST(RacesDeathTest, FindsMatrixLoadsWithoutBarrier) {
  const auto load = [](bool waits) {
    Visible<unsigned> out(32);
    launch("matrix", one_block(32), matrix_kernel, waits, out.get());
  };
  load(true);
  EXPECT_EXIT(load(false), testing::ExitedWithCode(66), "data race(.|\n)*matrix_kernel");
}

/// The tile of a product that thread 0 wrote.
__global__ void product_kernel(bool waits, float* out) {
  struct alignas(kSwizzledAlignment) Tile {
    bfloat16 rows[32 * 32];
  };
  auto& tile = *dynamic_shared<Tile>();
  if (threadIdx.x == 0) {
    for (bfloat16& value : tile.rows) store_shared(&value, bfloat16{});
    fence_async_proxy();
  }
  if (waits) __syncthreads();
  float c[2][8];
  wgmma_fence();
  wgmma<32, false>(c[0], c[1], {0, 0, 0, 0}, tile_descriptor<64>(tile.rows), false);
  wgmma_commit();
  wgmma_wait<0>(c);
  out[threadIdx.x] = c[0][0];
}

TEST(RacesDeathTest, FindsProductsWithoutBarrier) {
  const auto multiply = [](bool waits) {
    Visible<float> out(128);
    launch("product", one_block(128, 2048), product_kernel, waits, out.get());
  };
  multiply(true);
  EXPECT_EXIT(multiply(false), testing::ExitedWithCode(66), "data race(.|\n)*product_kernel");
}

}  // namespace
}  // namespace tessera::cuda
