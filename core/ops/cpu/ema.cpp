#include "core/ops/ema.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

// Memory-bound: 8 bytes read and 4 written per element.
void move_average(float rate, const float* weight, float* ema, int64_t n) {
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) {
      ema[i] = std::fma(rate, weight[i] - ema[i], ema[i]);
    }
  };
  for_each_block(n, block, weight, ema);
}

}  // namespace

void ema_step(double decay, const Tensor& grad_scale, const Tensor& weight, Tensor ema) {
  if (std::isnan(grad_scale.data<float>()[0])) return;
  const auto rate = static_cast<float>(1.0 - decay);
  const float* from = weight.data<float>();
  float* to = ema.data<float>();
  parallel_for(weight.numel(), kGrain, [=](int64_t begin, int64_t end) {
    move_average(rate, from + begin, to + begin, end - begin);
  });
}

void ema_swap(Tensor weight, Tensor ema) {
  float *a = weight.data<float>(), *b = ema.data<float>();
  parallel_for(weight.numel(), kGrain, [=](int64_t begin, int64_t end) {
    std::swap_ranges(a + begin, a + end, b + begin);
  });
}

}  // namespace tessera::cpu
