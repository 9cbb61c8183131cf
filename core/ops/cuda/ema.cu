#include "core/cuda/launch.h"
#include "core/cuda/pack_loop.h"
#include "core/cuda/packs.h"
#include "core/ops/device_ops.h"
#include "core/ops/ema.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

template <int N>
__device__ void move_average(float rate, const float* weight, float* ema, int64_t at) {
  const Floats<N> w = load_floats<N>(weight + at);
  Floats<N> e = load_floats<N>(ema + at);
  for (int i = 0; i < N; ++i) e.at[i] = fmaf(rate, w.at[i] - e.at[i], e.at[i]);
  store_floats(e, ema + at);
}

// Memory-bound: 8 bytes read and 4 written per element.
template <int N>
__global__ void ema_kernel(float rate, const float* grad_scale, const float* weight, float* ema,
                           int64_t n) {
  const float scale = *grad_scale;
  if (scale != scale) return;  // NaN
  for_each_pack<N>(
      n, [&](auto size, int64_t first) { move_average<size()>(rate, weight, ema, first); });
}

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
  constexpr int kPack = kPackSize<float>;
  const float* w = weight.data<float>();
  float* e = ema.data<float>();
  const int64_t n = weight.numel();
  const bool packs = takes_packs<kPack>(w) && takes_packs<kPack>(e);
  launch("ema_step", one_dimensional(packs ? ceil_div(n, kPack) : n, kThreads),
         packs ? ema_kernel<kPack> : ema_kernel<1>, static_cast<float>(1.0 - decay),
         grad_scale.data<float>(), w, e, n);
}

void ema_swap(Tensor weight, Tensor ema) {
  constexpr int kPack = kPackSize<float>;
  float *w = weight.data<float>(), *e = ema.data<float>();
  const int64_t n = weight.numel();
  const bool packs = takes_packs<kPack>(w) && takes_packs<kPack>(e);
  launch("ema_swap", one_dimensional(packs ? ceil_div(n, kPack) : n, kThreads),
         packs ? ema_swap_kernel<kPack> : ema_swap_kernel<1>, w, e, n);
}

}  // namespace tessera::cuda
