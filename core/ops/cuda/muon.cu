#include "core/ops/cuda/optimizer_step.h"
#include "core/ops/device_ops.h"
#include "core/ops/muon.h"

namespace tessera::cuda {
namespace {

struct Momentum {
  float beta;
  bool nesterov;
};

template <int N, typename M, typename T, typename Moments>
__device__ void add_to_momentum(const Momentum& settings, float grad_scale, const float* grad,
                                M* exp_avg, T* update, const Moments& moments, int64_t at) {
  const Floats<N> grads = load_floats<N>(grad + at);
  Floats<N> m = load_floats<N>(exp_avg + at), u = {};
  for (int i = 0; i < N; ++i) {
    const float g = grads.at[i];
    m.at[i] = fmaf(1.0f - settings.beta, fmaf(g, grad_scale, -m.at[i]), m.at[i]);
    u.at[i] = fmaf(settings.nesterov ? settings.beta : 1.0f, fmaf(-g, grad_scale, m.at[i]),
                   g * grad_scale);
  }
  moments.store_rounded(m, at, exp_avg);
  if (update != nullptr) store_floats(u, update + at);
}

// Memory-bound: with an fp32 momentum 8 bytes read and 4 written per element, and the update.
template <int N, typename M, typename T, typename Moments>
__global__ void momentum_kernel(Momentum settings, const float* grad_scale, const float* grad,
                                M* exp_avg, T* update, Moments moments, int64_t n) {
  const float scale = *grad_scale;
  if (scale != scale) {  // NaN
    if (update == nullptr) return;
    for (int64_t i = global_thread(); i < n; i += global_threads()) update[i] = from_float<T>(0.0f);
    return;
  }
  for_each_pack<N>(n, [&](auto size, int64_t first) {
    add_to_momentum<size()>(settings, scale, grad, exp_avg, update, moments, first);
  });
}

template <typename M, typename T, typename Moments>
void launch_momentum(const MuonMomentum& settings, const float* grad_scale, const float* grad,
                     M* exp_avg, T* update, const Moments& moments, int64_t n) {
  constexpr int kPack = kPackSize<float>;
  const bool packs =
      takes_packs<kPack>(grad) && takes_packs<kPack>(exp_avg) && takes_packs<kPack>(update);
  launch("muon_momentum", one_dimensional(packs ? ceil_div(n, kPack) : n, kBlockThreads),
         packs ? momentum_kernel<kPack, M, T, Moments> : momentum_kernel<1, M, T, Moments>,
         Momentum{settings.momentum, settings.nesterov}, grad_scale, grad, exp_avg, update, moments,
         n);
}

// Memory-bound: the update and 4 bytes read and 4 written per element, and the value if it is not
// the master.
template <typename T, typename Rounding>
struct Subtraction {
  float lr, keep;
  const T* subtrahend;
  Weights<T, Rounding> weights;

  template <int N>
  bool takes_packs() const {
    return cuda::takes_packs<N>(subtrahend) && weights.template takes_packs<N>();
  }

  template <int N>
  __device__ void update(float /*grad_scale*/, int64_t at) const {
    const Floats<N> u = load_floats<N>(subtrahend + at);
    Floats<N> p = load_floats<N>(weights.master + at);
    for (int i = 0; i < N; ++i) p.at[i] = fmaf(-lr, u.at[i], keep * p.at[i]);
    weights.store(p, at);
  }
};

}  // namespace

void muon_momentum(const MuonMomentum& settings, const Tensor& grad_scale, const Tensor& grad,
                   Tensor exp_avg, Tensor update) {
  const float *scale = grad_scale.data<float>(), *g = grad.data<float>();
  const int64_t n = grad.numel();
  const auto run = [&]<typename T>(T* out) {
    if (settings.moment_rounding) {
      launch_momentum(settings, scale, g, exp_avg.data<bfloat16>(), out,
                      RandomRounding(*settings.moment_rounding), n);
    } else {
      launch_momentum(settings, scale, g, exp_avg.data<float>(), out, NearestRounding{}, n);
    }
  };
  if (!update.defined()) return run(static_cast<float*>(nullptr));
  dispatch_float(update.dtype(), [&]<typename T>() { run(update.data<T>()); });
}

void muon_step(const MuonStep& settings, const Tensor& grad_scale, const Tensor& update,
               Tensor master, Tensor value) {
  const auto keep = static_cast<float>(1.0 - double{settings.lr} * double{settings.weight_decay});
  with_weights(master, value, settings.rounding,
               [&]<typename T, typename Rounding>(const Weights<T, Rounding>& weights) {
                 const Subtraction<T, Rounding> step{settings.lr, keep, update.data<T>(), weights};
                 launch_step("muon_step", step, grad_scale, master.numel());
               });
}

}  // namespace tessera::cuda
