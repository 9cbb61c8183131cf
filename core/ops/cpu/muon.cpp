#include "core/ops/muon.h"

#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/stochastic_rounding.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

/// M: of exp_avg; T: of the update, which may be null.
template <typename M, typename T>
struct MomentumState {
  const float* grad;
  M* exp_avg;
  T* update;

  MomentumState from(int64_t i) const {
    return {grad + i, exp_avg + i, update != nullptr ? update + i : nullptr};
  }
};

template <bool kUpdate, typename M, typename T>
void add_to_momentum(float beta, bool nesterov, float grad_scale, const MomentumState<M, T>& s,
                     const uint32_t* words, int64_t n) {
  const float rate = 1.0f - beta;
  const float momentum = nesterov ? beta : 1.0f;
  const float* grad = s.grad;
  M* exp_avg = s.exp_avg;
  T* update = s.update;
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) {
      // Every product is fused by hand: whether a compiler does it may depend on kUpdate, and ranks
      // with and without the update must have the same momentum.
      const float before = to_float(exp_avg[i]);
      const float m = std::fma(rate, std::fma(grad[i], grad_scale, -before), before);
      store_moment(m, word_of<M>(words, i), exp_avg[i]);
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

template <typename M, typename T>
void add_gradients(const MuonMomentum& settings, float grad_scale, const MomentumState<M, T>& s,
                   int64_t n) {
  parallel_for(n, kGrain, [&, s](int64_t begin, int64_t end) {
    for_each_updated_tile(
        settings.moment_rounding, std::nullopt, begin, end,
        [&](int64_t first, int64_t count, const uint32_t* words) {
          const auto run =
              s.update != nullptr ? add_to_momentum<true, M, T> : add_to_momentum<false, M, T>;
          run(settings.momentum, settings.nesterov, grad_scale, s.from(first), words, count);
        });
  });
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
  dispatch_float(exp_avg.dtype(), [&]<typename M>() {
    M* m = exp_avg.data<M>();
    if (!update.defined()) {
      return add_gradients(settings, scale, MomentumState<M, float>{g, m, nullptr}, grad.numel());
    }
    dispatch_float(update.dtype(), [&]<typename T>() {
      add_gradients(settings, scale, MomentumState<M, T>{g, m, update.data<T>()}, grad.numel());
    });
  });
}

void muon_step(const MuonStep& settings, const Tensor& grad_scale, const Tensor& update,
               Tensor master, Tensor value) {
  if (std::isnan(grad_scale.data<float>()[0])) return;
  const float lr = settings.lr;
  const auto keep = static_cast<float>(1.0 - double{lr} * double{settings.weight_decay});
  const bool nearest = value.raw() != master.raw() && !settings.rounding;
  float* p = master.data<float>();
  dispatch_float(value.dtype(), [&]<typename T>() {
    const T* u = update.data<T>();
    T* out = value.data<T>();
    const auto run = nearest ? subtract_update<true, T> : subtract_update<false, T>;
    parallel_for(master.numel(), kGrain, [=, &settings](int64_t begin, int64_t end) {
      for_each_weight_tile(std::nullopt, settings.rounding, {begin, end}, p, out,
                           [=](int64_t first, int64_t count, const uint32_t* /*words*/) {
                             run(lr, keep, u + first, p + first, out + first, count);
                           });
    });
  });
}

}  // namespace tessera::cpu
