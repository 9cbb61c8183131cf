#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/device_ops.h"
#include "core/ops/positions.h"

namespace tessera::cuda {
namespace {

__global__ void fill_positions_kernel(int64_t first, int64_t length, int64_t count, int32_t* out) {
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    out[i] = static_cast<int32_t>(first + i % length);
  }
}

}  // namespace

void fill_positions(int64_t first, Tensor positions) {
  launch("fill_positions", one_dimensional(positions.numel(), kBlockThreads), fill_positions_kernel,
         first, positions.dim(1), positions.numel(), positions.data<int32_t>());
}

}  // namespace tessera::cuda
