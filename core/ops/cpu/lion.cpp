#include "core/ops/lion.h"

#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/stochastic_rounding.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"
#include "core/ops/lion_constants.h"

namespace tessera::cpu {
namespace {

// Memory-bound: 12 bytes read and 8 written per element, and the value if it is not the master.
template <bool kValue, typename T>
void lion_update(LionConstants c, float grad_scale, const float* grad, float* exp_avg,
                 float* master, T* value, int64_t n) {
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) {
      const float m = exp_avg[i], change = grad[i] * grad_scale - m;
      const float update = std::fma(c.one_minus_beta1, change, m);
      const float sign = update > 0.0f ? 1.0f : update < 0.0f ? -1.0f : 0.0f;
      const float p = std::fma(-c.lr, sign, c.keep * master[i]);
      exp_avg[i] = std::fma(c.one_minus_beta2, change, m);
      master[i] = p;
      if constexpr (kValue) value[i] = from_float<T>(p);
    }
  };
  if constexpr (kValue) {
    for_each_block(n, block, grad, exp_avg, master, value);
  } else {
    for_each_block(n, block, grad, exp_avg, master);
  }
}

}  // namespace

void lion_step(const Lion& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
               Tensor master, Tensor value) {
  const LionConstants constants(settings);
  const float scale = grad_scale.data<float>()[0];
  if (std::isnan(scale)) return;
  const float* g = grad.data<float>();
  float *m = exp_avg.data<float>(), *p = master.data<float>();
  const bool separate = value.raw() != master.raw();
  if (settings.rounding) {
    bfloat16* out = value.data<bfloat16>();
    return parallel_for(grad.numel(), kGrain, [=, &settings](int64_t begin, int64_t end) {
      for_each_tile(
          *settings.rounding, begin, end, [=](int64_t first, int64_t count, const uint32_t* words) {
            lion_update<false>(constants, scale, g + first, m + first, p + first, out, count);
#pragma omp simd
            for (int64_t i = 0; i < count; ++i) {
              out[first + i] = tessera::round_stochastically(p[first + i], words[i]);
            }
          });
    });
  }
  dispatch_float(value.dtype(), [&]<typename T>() {
    T* out = value.data<T>();
    parallel_for(grad.numel(), kGrain, [=](int64_t begin, int64_t end) {
      const auto run = separate ? lion_update<true, T> : lion_update<false, T>;
      run(constants, scale, g + begin, m + begin, p + begin, out + begin, end - begin);
    });
  });
}

}  // namespace tessera::cpu
