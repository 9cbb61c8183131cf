#include "core/ops/cuda/optimizer_step.h"
#include "core/ops/device_ops.h"
#include "core/ops/ema.h"

namespace tessera::cuda {
namespace {

// Memory-bound: 8 bytes read and 4 written per element.
struct EmaStep {
  float rate;
  const float* weight;
  float* ema;

  template <int N>
  bool takes_packs() const {
    return cuda::takes_packs<N>(weight) && cuda::takes_packs<N>(ema);
  }

  template <int N>
  __device__ void update(float /*grad_scale*/, int64_t at) const {
    const Floats<N> w = load_floats<N>(weight + at);
    Floats<N> e = load_floats<N>(ema + at);
    for (int i = 0; i < N; ++i) e.at[i] = fmaf(rate, w.at[i] - e.at[i], e.at[i]);
    store_floats(e, ema + at);
  }
};

template <int N>
__device__ void swap_pack(float* weight, float* ema, int64_t at) {
  const Floats<N> w = load_floats<N>(weight + at), e = load_floats<N>(ema + at);
  store_floats(e, weight + at);
  store_floats(w, ema + at);
}

template <int N>
__global__ void ema_swap_kernel(float* weight, float* ema, int64_t n) {
  for_each_pack<N>(n, [&](auto size, int64_t first) { swap_pack<size()>(weight, ema, first); });
}

}  // namespace

void ema_step(double decay, const Tensor& grad_scale, const Tensor& weight, Tensor ema) {
  const EmaStep step{static_cast<float>(1.0 - decay), weight.data<float>(), ema.data<float>()};
  launch_step("ema_step", step, grad_scale, weight.numel());
}

void ema_swap(Tensor weight, Tensor ema) {
  constexpr int kPack = kPackSize<float>;
  float *w = weight.data<float>(), *e = ema.data<float>();
  const int64_t n = weight.numel();
  const bool packs = takes_packs<kPack>(w) && takes_packs<kPack>(e);
  launch("ema_swap", one_dimensional(packs ? ceil_div(n, kPack) : n, kBlockThreads),
         packs ? ema_swap_kernel<kPack> : ema_swap_kernel<1>, w, e, n);
}

}  // namespace tessera::cuda
