#include "core/cuda/async_copies.h"

#include "core/cuda/dynamic_shared.h"
#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {
namespace {

constexpr unsigned kThreads = 4;

/// Each thread copies 16 bytes, the last one zeros. Reads its own copy before waiting, then its
/// neighbor's after.
__global__ void copy_kernel(const uint4* from, uint32_t* before, uint4* after) {
  auto* shared = dynamic_shared<uint4>();
  const unsigned thread = threadIdx.x;
  AsyncCopies copies;
  shared[thread] = {7, 7, 7, 7};
  copies.start(shared + thread, from + thread, thread + 1 < kThreads);
  before[thread] = shared[thread].x;
  copies.wait();
  __syncthreads();
  after[thread] = shared[(thread + 1) % kThreads];
}

TEST(AsyncCopies, ArriveAfterWait) {
  const Visible<uint4> from(kThreads), after(kThreads);
  const Visible<uint32_t> before(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) from.get()[i] = {i + 1, 10, 20, 30};
  launch("copy", one_block(kThreads, kThreads * sizeof(uint4)), copy_kernel, from.get(),
         before.get(), after.get());
  synchronize();
  for (uint32_t i = 0; i < kThreads; ++i) {
    EXPECT_EQ(before[i], 7u) << "copies arrive as late as possible";
    const uint32_t neighbour = (i + 1) % kThreads;
    EXPECT_EQ(after[i].x, neighbour + 1 == kThreads ? 0u : neighbour + 1);
    EXPECT_EQ(after[i].w, neighbour + 1 == kThreads ? 0u : 30u);
  }
}

__global__ void unaligned_kernel(const float* from) {
  AsyncCopies copies;
  copies.start(dynamic_shared<float>(), from + 1, true);
}

TEST(AsyncCopiesDeathTest, NeedAlignedMemory) {
  const Visible<float> from(8);
  EXPECT_DEATH(launch("unaligned", one_block(1, 32), unaligned_kernel, from.get()),
               "cp.async to or from an address that is not aligned to 16 bytes");
}

}  // namespace
}  // namespace tessera::cuda
