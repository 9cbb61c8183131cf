#include "core/ops/muon.h"

#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/stochastic_rounding.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

template <bool kUpdate, typename T>
void add_to_momentum(MuonMomentum settings, float grad_scale, const float* grad, float* exp_avg,
                     T* update, int64_t n) {
  const float rate = 1.0f - settings.momentum;
  const float momentum = settings.nesterov ? settings.momentum : 1.0f;
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) {
      // Every product is fused by hand: whether a compiler does it may depend on kUpdate, and ranks
      // with and without the update must have the same momentum.
      const float m = std::fma(rate, std::fma(grad[i], grad_scale, -exp_avg[i]), exp_avg[i]);
      exp_avg[i] = m;
      if constexpr (kUpdate) {
        const float change = std::fma(-grad[i], grad_scale, m);
        update[i] = from_float<T>(std::fma(momentum, change, grad[i] * grad_scale));
      }
    }
  };
  if constexpr (kUpdate) {
    for_each_block(n, block, grad, exp_avg, update);
  } else {
    for_each_block(n, block, grad, exp_avg);
  }
}

template <bool kValue, typename T>
void subtract_update(float lr, float keep, const T* update, float* master, T* value, int64_t n) {
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) {
      const float p = std::fma(-lr, to_float(update[i]), keep * master[i]);
      master[i] = p;
      if constexpr (kValue) value[i] = from_float<T>(p);
    }
  };
  if constexpr (kValue) {
    for_each_block(n, block, update, master, value);
  } else {
    for_each_block(n, block, update, master);
  }
}

}  // namespace

void muon_momentum(const MuonMomentum& settings, const Tensor& grad_scale, const Tensor& grad,
                   Tensor exp_avg, Tensor update) {
  const float scale = grad_scale.data<float>()[0];
  if (std::isnan(scale)) {
    if (update.defined()) cpu::fill(update, 0.0);
    return;
  }
  const float* g = grad.data<float>();
  float* m = exp_avg.data<float>();
  const int64_t n = grad.numel();
  if (!update.defined()) {
    return parallel_for(n, kGrain, [=, &settings](int64_t begin, int64_t end) {
      add_to_momentum<false, float>(settings, scale, g + begin, m + begin, nullptr, end - begin);
    });
  }
  dispatch_float(update.dtype(), [&]<typename T>() {
    T* out = update.data<T>();
    parallel_for(n, kGrain, [=, &settings](int64_t begin, int64_t end) {
      add_to_momentum<true>(settings, scale, g + begin, m + begin, out + begin, end - begin);
    });
  });
}

void muon_step(const MuonStep& settings, const Tensor& grad_scale, const Tensor& update,
               Tensor master, Tensor value) {
  if (std::isnan(grad_scale.data<float>()[0])) return;
  const float lr = settings.lr;
  const auto keep = static_cast<float>(1.0 - double{lr} * double{settings.weight_decay});
  float* p = master.data<float>();
  const int64_t n = master.numel();
  if (settings.rounding) {
    const bfloat16* u = update.data<bfloat16>();
    bfloat16* out = value.data<bfloat16>();
    return parallel_for(n, kGrain, [=, &settings](int64_t begin, int64_t end) {
      for_each_tile(*settings.rounding, begin, end,
                    [=](int64_t first, int64_t count, const uint32_t* words) {
                      subtract_update<false>(lr, keep, u + first, p + first, out, count);
#pragma omp simd
                      for (int64_t i = 0; i < count; ++i) {
                        out[first + i] = tessera::round_stochastically(p[first + i], words[i]);
                      }
                    });
    });
  }
  const bool separate = value.raw() != master.raw();
  dispatch_float(value.dtype(), [&]<typename T>() {
    const T* u = update.data<T>();
    T* out = value.data<T>();
    parallel_for(n, kGrain, [=](int64_t begin, int64_t end) {
      const auto run = separate ? subtract_update<true, T> : subtract_update<false, T>;
      run(lr, keep, u + begin, p + begin, out + begin, end - begin);
    });
  });
}

}  // namespace tessera::cpu
