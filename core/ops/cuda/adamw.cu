#include "core/ops/adamw.h"
#include "core/ops/adamw_constants.h"
#include "core/ops/cuda/optimizer_step.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

// Memory-bound: with fp32 moments 16 bytes read and 12 written per element, and the value if it is
// not the master. A thread keeps four accesses of up to 16 bytes in flight.
template <typename M, typename MomentRounding, typename W>
struct AdamWStep {
  AdamWConstants c;
  const float* grad;
  M *exp_avg, *exp_avg_sq;
  MomentRounding moments;
  W weights;

  template <int N>
  bool takes_packs() const {
    return cuda::takes_packs<N>(grad) && cuda::takes_packs<N>(exp_avg) &&
           cuda::takes_packs<N>(exp_avg_sq) && weights.template takes_packs<N>();
  }

  template <int N>
  __device__ void update(float grad_scale, int64_t at) const {
    const Floats<N> grads = load_floats<N>(grad + at);
    Floats<N> m = load_floats<N>(exp_avg + at), v = load_floats<N>(exp_avg_sq + at);
    Floats<N> p = load_floats<N>(weights.master + at);
    for (int i = 0; i < N; ++i) {
      const float g = grads.at[i] * grad_scale;
      m.at[i] = fmaf(c.one_minus_beta1, g - m.at[i], m.at[i]);
      v.at[i] = fmaf(c.beta2, v.at[i], c.one_minus_beta2 * (g * g));
      const float denominator = fmaf(sqrtf(v.at[i]), c.root_scale, c.eps);
      p.at[i] = fmaf(-c.step_size, m.at[i] / denominator, c.keep * p.at[i]);
    }
    moments.store_pair(m, v, at, exp_avg, exp_avg_sq);
    weights.store(p, at);
  }
};

}  // namespace

void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value) {
  const AdamWConstants constants(settings);
  dispatch_float(exp_avg.dtype(), [&]<typename M>() {
    const auto moments = moment_rounding<M>(settings.moment_rounding);
    with_weights(master, value, settings.rounding, [&]<typename W>(const W& weights) {
      const AdamWStep<M, std::remove_const_t<decltype(moments)>, W> step{
          constants, grad.data<float>(), exp_avg.data<M>(), exp_avg_sq.data<M>(), moments, weights};
      launch_step("adamw_step", step, grad_scale, grad.numel());
    });
  });
}

}  // namespace tessera::cuda
