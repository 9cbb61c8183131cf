#include "core/cuda/launch.h"
#include "core/cuda/packs.h"
#include "core/ops/cuda/matmul.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

template <typename B, typename Y>
__global__ void add_bias_kernel(const B* bias, int64_t columns, int64_t n, bool adds, Y* y) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const float before = adds ? to_float(y[i]) : 0.0f;
    y[i] = from_float<Y>(before + to_float(bias[i % columns]));
  }
}

}  // namespace

void add_bias(const Tensor& bias, Tensor y, Accumulate accumulate) {
  const int64_t n = y.numel();
  dispatch_float(bias.dtype(), [&]<typename B>() {
    dispatch_float(y.dtype(), [&]<typename Y>() {
      launch("add_bias", one_dimensional(n, kThreads), add_bias_kernel<B, Y>, bias.data<B>(),
             bias.numel(), n, accumulate == Accumulate::yes, y.data<Y>());
    });
  });
}

}  // namespace tessera::cuda
