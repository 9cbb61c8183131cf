#include "core/ops/cuda/optimizer_step.h"
#include "core/ops/device_ops.h"
#include "core/ops/lion.h"
#include "core/ops/lion_constants.h"

namespace tessera::cuda {
namespace {

// Memory-bound: with an fp32 momentum 12 bytes read and 8 written per element, and the value if it
// is not the master. A thread keeps three accesses of up to 16 bytes in flight.
template <typename M, typename MomentRounding, typename W>
struct LionStep {
  LionConstants c;
  const float* grad;
  M* exp_avg;
  MomentRounding moments;
  W weights;

  template <int N>
  bool takes_packs() const {
    return cuda::takes_packs<N>(grad) && cuda::takes_packs<N>(exp_avg) &&
           weights.template takes_packs<N>();
  }

  template <int N>
  __device__ void update(float grad_scale, int64_t at) const {
    const Floats<N> grads = load_floats<N>(grad + at);
    Floats<N> m = load_floats<N>(exp_avg + at), p = load_floats<N>(weights.master + at);
    for (int i = 0; i < N; ++i) {
      const float change = grads.at[i] * grad_scale - m.at[i];
      const float direction = fmaf(c.one_minus_beta1, change, m.at[i]);
      const float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : 0.0f;
      p.at[i] = fmaf(-c.lr, sign, c.keep * p.at[i]);
      m.at[i] = fmaf(c.one_minus_beta2, change, m.at[i]);
    }
    moments.store_rounded(m, at, exp_avg);
    weights.store(p, at);
  }
};

}  // namespace

void lion_step(const Lion& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
               Tensor master, Tensor value) {
  const LionConstants constants(settings);
  dispatch_float(exp_avg.dtype(), [&]<typename M>() {
    const auto moments = moment_rounding<M>(settings.moment_rounding);
    with_weights(master, value, settings.rounding, [&]<typename W>(const W& weights) {
      const LionStep<M, std::remove_const_t<decltype(moments)>, W> step{
          constants, grad.data<float>(), exp_avg.data<M>(), moments, weights};
      launch_step("lion_step", step, grad_scale, grad.numel());
    });
  });
}

}  // namespace tessera::cuda
