#include "core/cuda/launch.h"
#include "core/cuda/pack_loop.h"
#include "core/cuda/packs.h"
#include "core/cuda/stochastic_rounding.h"
#include "core/ops/device_ops.h"
#include "core/ops/lion.h"
#include "core/ops/lion_constants.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

/// M: of the momentum; T: of the value.
template <typename M, typename T>
struct State {
  const float* grad;
  M* exp_avg;
  float* master;
  T* value;  ///< null if the master is the value
};

template <int N, typename M, typename T, typename Moments, typename Rounding>
__device__ void update(const LionConstants& c, float grad_scale, const State<M, T>& s,
                       const Moments& moments, const Rounding& rounding, int64_t at) {
  const Floats<N> grad = load_floats<N>(s.grad + at);
  Floats<N> m = load_floats<N>(s.exp_avg + at), p = load_floats<N>(s.master + at);
  for (int i = 0; i < N; ++i) {
    const float change = grad.at[i] * grad_scale - m.at[i];
    const float direction = fmaf(c.one_minus_beta1, change, m.at[i]);
    const float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : 0.0f;
    p.at[i] = fmaf(-c.lr, sign, c.keep * p.at[i]);
    m.at[i] = fmaf(c.one_minus_beta2, change, m.at[i]);
  }
  moments.store_rounded(m, at, s.exp_avg);
  store_floats(p, s.master + at);
  if (s.value != nullptr) rounding.store_rounded(p, at, s.value);
}

// Memory-bound: with an fp32 momentum 12 bytes read and 8 written per element, and the value if it
// is not the master. A thread keeps three accesses of up to 16 bytes in flight.
template <int N, typename M, typename T, typename Moments, typename Rounding>
__global__ void lion_kernel(LionConstants constants, const float* grad_scale, State<M, T> state,
                            Moments moments, Rounding rounding, int64_t n) {
  const float scale = *grad_scale;
  if (scale != scale) return;  // NaN
  for_each_pack<N>(n, [&](auto size, int64_t first) {
    update<size()>(constants, scale, state, moments, rounding, first);
  });
}

template <typename M, typename T, typename Moments, typename Rounding>
void launch_lion(const Lion& settings, const float* grad_scale, const State<M, T>& s,
                 const Moments& moments, const Rounding& rounding, int64_t n) {
  constexpr int kPack = kPackSize<float>;
  const bool packs = takes_packs<kPack>(s.grad) && takes_packs<kPack>(s.exp_avg) &&
                     takes_packs<kPack>(s.master) && takes_packs<kPack>(s.value);
  launch(
      "lion_step", one_dimensional(packs ? ceil_div(n, kPack) : n, kThreads),
      packs ? lion_kernel<kPack, M, T, Moments, Rounding> : lion_kernel<1, M, T, Moments, Rounding>,
      LionConstants(settings), grad_scale, s, moments, rounding, n);
}

}  // namespace

void lion_step(const Lion& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
               Tensor master, Tensor value) {
  const int64_t n = grad.numel();
  const float* scale = grad_scale.data<float>();
  dispatch_float(exp_avg.dtype(), [&]<typename M>() {
    dispatch_float(value.dtype(), [&]<typename T>() {
      const State<M, T> s{grad.data<float>(), exp_avg.data<M>(), master.data<float>(),
                          value.raw() == master.raw() ? nullptr : value.data<T>()};
      const auto moments = moment_rounding<M>(settings.moment_rounding);
      with_rounding<T>(settings.rounding, [&](const auto& values) {
        launch_lion(settings, scale, s, moments, values, n);
      });
    });
  });
}

}  // namespace tessera::cuda
