#include "launch/metrics/product_speed.h"

#include <algorithm>
#include <chrono>

#include "core/cuda/runtime.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "core/ops/matmul.h"

namespace tessera {
namespace {

void finish([[maybe_unused]] Device device) {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) cuda::synchronize();
  }
}

}  // namespace

double product_speed(Device device, DType precision, int64_t size) {
  constexpr int kRuns = 5;
  const MemoryUse use("a product that measures the GPU's speed");
  const OwnedTensor x({size, size}, precision, device), w({size, size}, precision, device);
  const OwnedTensor y({size, size}, precision, device);
  fill(x.tensor, 0.5);
  fill(w.tensor, 0.5);
  double best = 0.0;
  for (int run = 0; run <= kRuns; ++run) {
    finish(device);
    const auto start = std::chrono::steady_clock::now();
    linear_forward(x.tensor, w.tensor, {}, y.tensor);
    finish(device);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const auto n = static_cast<double>(size);
    if (run > 0) best = std::max(best, 2.0 * n * n * n / elapsed.count());
  }
  return best;
}

}  // namespace tessera
