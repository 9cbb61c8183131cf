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

/// M: of the moments; T: of the value.
template <typename M, typename T>
struct AdamWState {
  const float* grad;
  M *exp_avg, *exp_avg_sq;
  float* master;
  T* value;

  AdamWState from(int64_t i) const {
    return {grad + i, exp_avg + i, exp_avg_sq + i, master + i, value + i};
  }
};

// Memory-bound: with fp32 moments 16 bytes read and 12 written per element, and the value if it is
// not the master. The square root and the division hide behind the traffic.
template <bool kValue, typename M, typename T>
void update(AdamWConstants c, float grad_scale, const AdamWState<M, T>& s, const uint32_t* words,
            int64_t n) {
  const float* grad = s.grad;
  M *exp_avg = s.exp_avg, *exp_avg_sq = s.exp_avg_sq;
  float* master = s.master;
  T* value = s.value;
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) {
      const float g = grad[i] * grad_scale;
      const float before = to_float(exp_avg[i]);
      const float m = std::fma(c.one_minus_beta1, g - before, before);
      const float v = std::fma(c.beta2, to_float(exp_avg_sq[i]), c.one_minus_beta2 * (g * g));
      const float denominator = std::fma(std::sqrt(v), c.root_scale, c.eps);
      const float p = std::fma(-c.step_size, m / denominator, c.keep * master[i]);
      const uint32_t word = word_of<M>(words, i);
      store_moment(m, word, exp_avg[i]);
      store_moment(v, word >> 16, exp_avg_sq[i]);
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

}  // namespace

void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value) {
  const AdamWConstants constants(settings);
  const float scale = grad_scale.data<float>()[0];
  if (std::isnan(scale)) return;
  dispatch_float(exp_avg.dtype(), [&]<typename M>() {
    dispatch_float(value.dtype(), [&]<typename T>() {
      const AdamWState<M, T> s{grad.data<float>(), exp_avg.data<M>(), exp_avg_sq.data<M>(),
                               master.data<float>(), value.data<T>()};
      const bool nearest = value.raw() != master.raw() && !settings.rounding;
      const auto run = nearest ? update<true, M, T> : update<false, M, T>;
      parallel_for(grad.numel(), kGrain, [&, s, run](int64_t begin, int64_t end) {
        for_each_weight_tile(settings.moment_rounding, settings.rounding, {begin, end}, s.master,
                             s.value, [&](int64_t first, int64_t count, const uint32_t* words) {
                               run(constants, scale, s.from(first), words, count);
                             });
      });
    });
  });
}

}  // namespace tessera::cpu
