// Products of a warpgroup against the textbook, and mistakes that the emulator must find.

#include "core/cuda/wgmma.h"

#include <cmath>
#include <vector>

#include "core/cuda/async_copies.h"
#include "core/cuda/dynamic_shared.h"
#include "core/cuda/mma.h"
#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {
namespace {

enum class Bug {
  none,
  no_wait,              // accumulators are read before the wait
  waits_for_older,      // the wait leaves the last group pending
  no_commit,            // the wait is for groups, and there is none
  never_waits,          // the kernel ends
  overwrites_tile,      // before the wait
  changes_accumulator,  // before the wait
  no_proxy_fence,       // after writing tiles
  no_proxy_fence_of_copies,
  fences_after_barrier,
  no_product_fence,
  skips_warp,
  differs_by_warp,  // the last warp describes other columns
  differs_by_lane,
  plain_rows,     // tiles are not swizzled
  other_swizzle,  // of the descriptor
  outside,        // of shared memory
};

/// Writes a tile whose rows have kColumns elements.
template <int kColumns>
__device__ void put_tile(const bfloat16* from, int rows, Bug bug, AsyncCopies& copies,
                         bfloat16* tile) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * kColumns / 8; i += 128) {
    const int row = i / (kColumns / 8), chunk = i % (kColumns / 8);
    const int place = bug == Bug::plain_rows ? chunk : swizzled_chunk<2 * kColumns>(row, chunk);
    bfloat16* const to = tile + row * kColumns + 8 * place;
    if (row % 2 == 0 || bug == Bug::no_proxy_fence_of_copies) {
      copies.start(to, from + 8 * i, true);
    } else {
      for (int j = 0; j < 8; ++j) store_shared(to + j, from[8 * i + j]);
    }
  }
}

template <int kN, int kDepth, bool kTransposed>
struct ProductShared {
  alignas(kSwizzledAlignment) bfloat16 a[64 * kDepth];
  alignas(kSwizzledAlignment) bfloat16 b[kN * kDepth];
};

/// c (64, kN) = 1 + a (64, kDepth) b, with b of shape (kN, kDepth) or, transposed, (kDepth, kN).
template <int kN, int kDepth, bool kTransposed, bool kRegisters>
__global__ void product_kernel(const bfloat16* a, const bfloat16* b, Bug bug, float* c) {
  constexpr int kRow = kTransposed ? kN : kDepth;
  auto& shared = *dynamic_shared<ProductShared<kN, kDepth, kTransposed>>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  AsyncCopies copies;
  put_tile<kDepth>(a, 64, bug, copies, shared.a);
  put_tile<kRow>(b, kN * kDepth / kRow, bug, copies, shared.b);
  copies.wait();
  const bool fences = bug != Bug::no_proxy_fence && bug != Bug::no_proxy_fence_of_copies;
  if (fences && bug != Bug::fences_after_barrier) fence_async_proxy();
  __syncthreads();
  if (bug == Bug::fences_after_barrier) fence_async_proxy();

  float sums[2][kN / 4];
  for (auto& row : sums) {
    for (float& sum : row) sum = 1.0f;
  }
  uint32_t held[kDepth / 16][4];
  for (int k = 0; k < kDepth / 16; ++k) {
    const int row = 16 * warp + lane % 16, chunk = 2 * k + lane / 16;
    load_matrices<false>(held[k],
                         shared.a + row * kDepth + 8 * swizzled_chunk<2 * kDepth>(row, chunk));
  }
  const uint64_t of_a = tile_descriptor<2 * kDepth>(shared.a);
  uint64_t of_b = tile_descriptor<2 * kRow>(shared.b);
  if (bug == Bug::other_swizzle) of_b ^= uint64_t{3} << 62;
  if (bug == Bug::outside) of_b = moved(of_b, 1 << 15);
  if (bug == Bug::differs_by_warp && warp == 3) of_b = moved(of_b, 16);
  if (bug == Bug::differs_by_lane && lane == 3) of_b = moved(of_b, 16);
  if (bug != Bug::skips_warp || warp != 2) {
    if (bug != Bug::no_product_fence) wgmma_fence();
    for (int k = 0; k < kDepth / 16; ++k) {
      const uint64_t part = moved(of_b, kTransposed ? 16 * k * 2 * kRow : 32 * k);
      if constexpr (kRegisters) {
        wgmma<kN, kTransposed>(sums[0], sums[1], held[k], part, true);
      } else {
        wgmma<kN>(sums[0], sums[1], moved(of_a, 32 * k), part, true);
      }
    }
    if (bug != Bug::no_commit) wgmma_commit();
    if (bug == Bug::overwrites_tile) store_shared(shared.b + thread, bfloat16{});
    if (bug == Bug::changes_accumulator) sums[0][0] = 0.0f;
    if (bug == Bug::waits_for_older) wgmma_wait<1>(sums);
    const bool late = bug == Bug::no_wait || bug == Bug::waits_for_older;
    if (!late && bug != Bug::never_waits) wgmma_wait<0>(sums);
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < kN / 4; ++j) {
        const int row = 16 * warp + lane / 4 + 8 * i, column = 8 * (j / 2) + 2 * (lane % 4) + j % 2;
        c[row * kN + column] = sums[i][j];
      }
    }
    if (late) wgmma_wait<0>(sums);
  }
  __syncthreads();
}

/// Returns the greatest difference from the textbook; NaN if any is.
template <int kN, int kDepth, bool kTransposed, bool kRegisters>
float error_of(Bug bug) {
  const Visible<bfloat16> a(64 * kDepth), b(kN * kDepth);
  const Visible<float> c(64 * kN);
  for (int i = 0; i < 64 * kDepth; ++i) {
    a.get()[i] = from_float<bfloat16>(static_cast<float>(i * 7 % 13 - 6));
  }
  for (int i = 0; i < kN * kDepth; ++i) {
    b.get()[i] = from_float<bfloat16>(static_cast<float>(i * 11 % 17 - 8));
  }
  launch("product", one_block(128, sizeof(ProductShared<kN, kDepth, kTransposed>)),
         product_kernel<kN, kDepth, kTransposed, kRegisters>, a.get(), b.get(), bug, c.get());
  synchronize();
  float error = 0.0f;
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 1.0f;  // of small integers: exact in any order
      for (int k = 0; k < kDepth; ++k) {
        const int at = kTransposed ? k * kN + column : column * kDepth + k;
        sum += to_float(a[row * kDepth + k]) * to_float(b[at]);
      }
      const float difference = std::fabs(c[row * kN + column] - sum);
      if (!(difference <= error)) error = difference;
    }
  }
  return error;
}
float error_of(Bug bug) { return error_of<64, 64, false, true>(bug); }

TEST(Wgmma, MatchesTextbook) {
  EXPECT_EQ((error_of<64, 64, false, true>(Bug::none)), 0.0f);
  EXPECT_EQ((error_of<32, 64, false, true>(Bug::none)), 0.0f);
  EXPECT_EQ((error_of<64, 32, false, true>(Bug::none)), 0.0f);
  EXPECT_EQ((error_of<64, 64, true, true>(Bug::none)), 0.0f);
  EXPECT_EQ((error_of<64, 32, true, true>(Bug::none)), 0.0f);
  EXPECT_EQ((error_of<32, 64, true, true>(Bug::none)), 0.0f);
  EXPECT_EQ((error_of<64, 64, false, false>(Bug::none)), 0.0f);
  EXPECT_EQ((error_of<32, 32, false, false>(Bug::none)), 0.0f);
}

TEST(Wgmma, IsOfHopperAlone) {
  use_device(0);
  EXPECT_TRUE(has_wgmma());
  for (const char* capability : {"8.0", "10.0"}) {
    const Environment set("TESSERA_EMULATOR_CAPABILITY", capability);
    use_device(0);  // asks again
    EXPECT_FALSE(has_wgmma()) << capability;
  }
  use_device(0);
}

TEST(Wgmma, MissingWaitShows) {
  for (const Bug bug : {Bug::no_wait, Bug::waits_for_older}) {
    EXPECT_TRUE(std::isnan(error_of(bug))) << static_cast<int>(bug);
  }
}

TEST(Wgmma, TileThatIsOverwrittenTooEarlyShows) { EXPECT_NE(error_of(Bug::overwrites_tile), 0.0f); }

TEST(Wgmma, WrongSwizzleShows) {
  EXPECT_NE(error_of(Bug::plain_rows), 0.0f);
  EXPECT_NE(error_of(Bug::other_swizzle), 0.0f);
}

TEST(WgmmaDeathTest, FindsMissingWaitAtTheEnd) {
  EXPECT_DEATH(error_of(Bug::never_waits), "ended before it waited for its products");
  EXPECT_DEATH(error_of(Bug::no_commit), "ended before it waited for its products");
}

TEST(WgmmaDeathTest, FindsAccumulatorThatIsChangedInFlight) {
  EXPECT_DEATH(error_of(Bug::changes_accumulator), "an accumulator in flight was changed");
}

TEST(WgmmaDeathTest, FindsMissingFences) {
  for (const Bug bug :
       {Bug::no_proxy_fence, Bug::no_proxy_fence_of_copies, Bug::fences_after_barrier}) {
    EXPECT_DEATH(error_of(bug), "without a fence of the async proxy") << static_cast<int>(bug);
  }
  EXPECT_DEATH((error_of<64, 64, false, false>(Bug::no_proxy_fence)), "fence of the async proxy");
  EXPECT_DEATH(error_of(Bug::no_product_fence), "without wgmma_fence");
}

TEST(WgmmaDeathTest, FindsWarpsThatDoNotTakePart) {
  EXPECT_DEATH(error_of(Bug::skips_warp), "warp 2 started 0 of the 4 products of its warpgroup");
  EXPECT_DEATH(error_of(Bug::differs_by_warp), "warps of a warpgroup start different products");
  EXPECT_DEATH(error_of(Bug::differs_by_lane), "lanes start different products");
}

TEST(WgmmaDeathTest, FindsDescriptorOutsideOfSharedMemory) {
  EXPECT_DEATH(error_of(Bug::outside), "memory outside of dynamic shared memory");
}

}  // namespace
}  // namespace tessera::cuda
