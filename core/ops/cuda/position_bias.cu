#include <bit>

#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/ops/device_ops.h"
#include "core/ops/position_bias.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

// Runs once per pass.
__global__ void alibi_kernel(int64_t first_head, int64_t n, int64_t count, int64_t columns,
                             float* table) {
  const int64_t center = columns / 2;
  for (int64_t at = global_thread(); at < count; at += global_threads()) {
    const int64_t column = at % columns;
    const int64_t distance = column < center ? center - column : column - center;
    const auto slope = static_cast<float>(exp2(alibi_log2_slope(first_head + at / columns, n)));
    table[at] = -slope * static_cast<float>(distance);
  }
}

}  // namespace

void alibi_bias(int64_t first_head, int64_t total_heads, Tensor table) {
  const auto n = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(total_heads)));
  launch("alibi_bias", one_dimensional(table.numel(), kThreads), alibi_kernel, first_head, n,
         table.numel(), table.dim(1), table.data<float>());
}

}  // namespace tessera::cuda
