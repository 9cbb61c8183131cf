#include "core/cuda/launch.h"
#include "core/cuda/pack_loop.h"
#include "core/cuda/packs.h"
#include "core/cuda/stochastic_rounding.h"
#include "core/ops/adamw.h"
#include "core/ops/adamw_constants.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

/// M: of the moments; T: of the value.
template <typename M, typename T>
struct State {
  const float* grad;
  M *exp_avg, *exp_avg_sq;
  float* master;
  T* value;  ///< null if the master is the value
};

template <int N, typename M, typename T, typename Moments, typename Rounding>
__device__ void update(const AdamWConstants& c, float grad_scale, const State<M, T>& s,
                       const Moments& moments, const Rounding& rounding, int64_t at) {
  const Floats<N> grad = load_floats<N>(s.grad + at);
  Floats<N> m = load_floats<N>(s.exp_avg + at), v = load_floats<N>(s.exp_avg_sq + at);
  Floats<N> p = load_floats<N>(s.master + at);
  for (int i = 0; i < N; ++i) {
    const float g = grad.at[i] * grad_scale;
    m.at[i] = fmaf(c.one_minus_beta1, g - m.at[i], m.at[i]);
    v.at[i] = fmaf(c.beta2, v.at[i], c.one_minus_beta2 * (g * g));
    const float denominator = fmaf(sqrtf(v.at[i]), c.root_scale, c.eps);
    p.at[i] = fmaf(-c.step_size, m.at[i] / denominator, c.keep * p.at[i]);
  }
  moments.store_pair(m, v, at, s.exp_avg, s.exp_avg_sq);
  store_floats(p, s.master + at);
  if (s.value != nullptr) rounding.store_rounded(p, at, s.value);
}

// Memory-bound: with fp32 moments 16 bytes read and 12 written per element, and the value if it is
// not the master. A thread keeps four accesses of up to 16 bytes in flight.
template <int N, typename M, typename T, typename Moments, typename Rounding>
__global__ void adamw_kernel(AdamWConstants constants, const float* grad_scale, State<M, T> state,
                             Moments moments, Rounding rounding, int64_t n) {
  const float scale = *grad_scale;
  if (scale != scale) return;  // NaN
  for_each_pack<N>(n, [&](auto size, int64_t first) {
    update<size()>(constants, scale, state, moments, rounding, first);
  });
}

template <typename M, typename T, typename Moments, typename Rounding>
void launch_adamw(const AdamW& settings, const float* grad_scale, const State<M, T>& s,
                  const Moments& moments, const Rounding& rounding, int64_t n) {
  constexpr int kPack = kPackSize<float>;
  const bool packs = takes_packs<kPack>(s.grad) && takes_packs<kPack>(s.exp_avg) &&
                     takes_packs<kPack>(s.exp_avg_sq) && takes_packs<kPack>(s.master) &&
                     takes_packs<kPack>(s.value);
  launch("adamw_step", one_dimensional(packs ? ceil_div(n, kPack) : n, kThreads),
         packs ? adamw_kernel<kPack, M, T, Moments, Rounding>
               : adamw_kernel<1, M, T, Moments, Rounding>,
         AdamWConstants(settings), grad_scale, s, moments, rounding, n);
}

}  // namespace

void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value) {
  const int64_t n = grad.numel();
  const float* scale = grad_scale.data<float>();
  dispatch_float(exp_avg.dtype(), [&]<typename M>() {
    dispatch_float(value.dtype(), [&]<typename T>() {
      const State<M, T> s{grad.data<float>(), exp_avg.data<M>(), exp_avg_sq.data<M>(),
                          master.data<float>(),
                          value.raw() == master.raw() ? nullptr : value.data<T>()};
      const auto moments = moment_rounding<M>(settings.moment_rounding);
      with_rounding<T>(settings.rounding, [&](const auto& values) {
        launch_adamw(settings, scale, s, moments, values, n);
      });
    });
  });
}

}  // namespace tessera::cuda
