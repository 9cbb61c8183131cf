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

/// M: of the momentum; T: of the value.
template <typename M, typename T>
struct LionState {
  const float* grad;
  M* exp_avg;
  float* master;
  T* value;

  LionState from(int64_t i) const { return {grad + i, exp_avg + i, master + i, value + i}; }
};

// Memory-bound: with an fp32 momentum 12 bytes read and 8 written per element, and the value if it
// is not the master.
template <bool kValue, typename M, typename T>
void lion_update(LionConstants c, float grad_scale, const LionState<M, T>& s, const uint32_t* words,
                 int64_t n) {
  const float* grad = s.grad;
  M* exp_avg = s.exp_avg;
  float* master = s.master;
  T* value = s.value;
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) {
      const float m = to_float(exp_avg[i]), change = grad[i] * grad_scale - m;
      const float update = std::fma(c.one_minus_beta1, change, m);
      const float sign = update > 0.0f ? 1.0f : update < 0.0f ? -1.0f : 0.0f;
      const float p = std::fma(-c.lr, sign, c.keep * master[i]);
      store_moment(std::fma(c.one_minus_beta2, change, m), word_of<M>(words, i), exp_avg[i]);
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
  dispatch_float(exp_avg.dtype(), [&]<typename M>() {
    dispatch_float(value.dtype(), [&]<typename T>() {
      const LionState<M, T> s{grad.data<float>(), exp_avg.data<M>(), master.data<float>(),
                              value.data<T>()};
      const bool nearest = value.raw() != master.raw() && !settings.rounding;
      const auto run = nearest ? lion_update<true, M, T> : lion_update<false, M, T>;
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
