#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/cuda/workspace.h"
#include "core/ops/checksum.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

constexpr int64_t kMaxPartials = 1024;

/// The sum over the threads of a block, valid in thread 0. All threads must call it.
__device__ uint64_t sum_of_block(uint64_t x) {
  __shared__ uint64_t sums[kBlockThreads / kWarpSize];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int step = kWarpSize / 2; step > 0; step /= 2) x += __shfl_xor_sync(kWholeWarp, x, step);
  if (lane == 0) sums[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  uint64_t total = 0;
  if (threadIdx.x == 0) {
    for (const uint64_t sum : sums) total += sum;
  }
  return total;
}

/// A partial sum for each block.
template <typename Bits>
__global__ void terms_kernel(const Bits* x, int64_t n, uint64_t* partials) {
  uint64_t sum = 0;
  for (int64_t i = global_thread(); i < n; i += global_threads()) sum += checksum_term(i, x[i]);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void total_kernel(const uint64_t* partials, int count, int64_t* out) {
  uint64_t sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlockThreads) sum += partials[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *out = static_cast<int64_t>(sum);
}

}  // namespace

void checksum(const Tensor& x, Tensor out) {
  constexpr const char* kOp = "checksum";
  auto* partials = static_cast<uint64_t*>(workspace(kMaxPartials * sizeof(uint64_t)));
  const LaunchShape shape =
      one_dimensional(std::max<int64_t>(x.numel(), 1), kBlockThreads, kMaxPartials);
  const auto sum = [&](const auto* bits) {
    launch(kOp, shape, terms_kernel<std::remove_cvref_t<decltype(*bits)>>, bits, x.numel(),
           partials);
  };
  if (x.dtype() == DType::bf16) {
    sum(static_cast<const uint16_t*>(x.raw()));
  } else if (x.dtype() == DType::u8) {
    sum(static_cast<const uint8_t*>(x.raw()));
  } else {
    sum(static_cast<const uint32_t*>(x.raw()));
  }
  launch(kOp, {dim3(1), dim3(kBlockThreads)}, total_kernel, partials,
         static_cast<int>(shape.grid.x), out.data<int64_t>());
}

}  // namespace tessera::cuda
