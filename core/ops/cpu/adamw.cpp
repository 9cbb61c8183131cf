#include "core/ops/adamw.h"

#include <cmath>

#include "core/ops/adamw_constants.h"
#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/stochastic_rounding.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

// Memory-bound: 16 bytes read and 12 written per element, and the value if it is not the master.
// The square root and the division hide behind the traffic.
template <bool kValue, typename T>
void update(AdamWConstants c, float grad_scale, const float* grad, float* exp_avg,
            float* exp_avg_sq, float* master, T* value, int64_t n) {
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) {
      const float g = grad[i] * grad_scale;
      const float m = std::fma(c.one_minus_beta1, g - exp_avg[i], exp_avg[i]);
      const float v = std::fma(c.beta2, exp_avg_sq[i], c.one_minus_beta2 * (g * g));
      const float denominator = std::fma(std::sqrt(v), c.root_scale, c.eps);
      const float p = std::fma(-c.step_size, m / denominator, c.keep * master[i]);
      exp_avg[i] = m;
      exp_avg_sq[i] = v;
      master[i] = p;
      if constexpr (kValue) value[i] = from_float<T>(p);
    }
  };
  if constexpr (kValue) {
    for_each_block(n, block, grad, exp_avg, exp_avg_sq, master, value);
  } else {
    for_each_block(n, block, grad, exp_avg, exp_avg_sq, master);
  }
}

/// update() with values that are rounded by the bits of `rounding`.
void update_and_round(const StochasticRounding& rounding, AdamWConstants c, float grad_scale,
                      const float* grad, float* exp_avg, float* exp_avg_sq, float* master,
                      bfloat16* value, Range elements) {
  for_each_tile(rounding, elements.begin, elements.end,
                [=](int64_t first, int64_t count, const uint32_t* words) {
                  float* p = master + first;
                  update<false>(c, grad_scale, grad + first, exp_avg + first, exp_avg_sq + first, p,
                                value, count);
#pragma omp simd
                  for (int64_t i = 0; i < count; ++i) {
                    value[first + i] = tessera::round_stochastically(p[i], words[i]);
                  }
                });
}

}  // namespace

void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value) {
  const AdamWConstants constants(settings);
  const float scale = grad_scale.data<float>()[0];
  if (std::isnan(scale)) return;
  const float* g = grad.data<float>();
  float *m = exp_avg.data<float>(), *v = exp_avg_sq.data<float>(), *p = master.data<float>();
  const bool separate = value.raw() != master.raw();
  if (settings.rounding) {
    bfloat16* out = value.data<bfloat16>();
    return parallel_for(grad.numel(), kGrain, [=, &settings](int64_t begin, int64_t end) {
      update_and_round(*settings.rounding, constants, scale, g, m, v, p, out, {begin, end});
    });
  }
  dispatch_float(value.dtype(), [&]<typename T>() {
    T* out = value.data<T>();
    parallel_for(grad.numel(), kGrain, [=](int64_t begin, int64_t end) {
      const auto run = separate ? update<true, T> : update<false, T>;
      run(constants, scale, g + begin, m + begin, v + begin, p + begin, out + begin, end - begin);
    });
  });
}

}  // namespace tessera::cpu
