#pragma once

#include <optional>

#include "core/cuda/launch.h"
#include "core/cuda/pack_loop.h"
#include "core/cuda/packs.h"
#include "core/cuda/stochastic_rounding.h"
#include "core/tensor.h"

namespace tessera::cuda {

/// The weights that a step updates.
template <typename T, typename Rounding>
struct Weights {
  float* master;
  T* value;  ///< null if the master is the value
  Rounding rounding;

  template <int N>
  bool takes_packs() const {
    return cuda::takes_packs<N>(master) && cuda::takes_packs<N>(value);
  }

  template <int N>
  __device__ void store(const Floats<N>& p, int64_t at) const {
    store_floats(p, master + at);
    if (value != nullptr) rounding.store_rounded(p, at, value);
  }
};

/// Calls launch(weights) with the Weights of a step.
template <typename Launch>
void with_weights(const Tensor& master, const Tensor& value,
                  const std::optional<StochasticRounding>& rounding, const Launch& launch) {
  dispatch_float(value.dtype(), [&]<typename T>() {
    T* const separate = value.raw() == master.raw() ? nullptr : value.data<T>();
    with_rounding<T>(rounding, [&]<typename Rounding>(const Rounding& how) {
      launch(Weights<T, Rounding>{master.data<float>(), separate, how});
    });
  });
}

/// Runs step.update<N>(grad_scale, at) for each pack of N elements. Changes nothing if the scale is
/// NaN. The host does not know the scale.
template <int N, typename Step>
__global__ void step_kernel(Step step, const float* grad_scale, int64_t n) {
  const float scale = *grad_scale;
  if (scale != scale) return;  // NaN
  for_each_pack<N>(n,
                   [&](auto size, int64_t first) { step.template update<size()>(scale, first); });
}

template <typename Step>
void launch_step(const char* what, const Step& step, const Tensor& grad_scale, int64_t n) {
  constexpr int kPack = kPackSize<float>;
  const bool packs = step.template takes_packs<kPack>();
  launch(what, one_dimensional(packs ? ceil_div(n, kPack) : n, kBlockThreads),
         packs ? step_kernel<kPack, Step> : step_kernel<1, Step>, step, grad_scale.data<float>(),
         n);
}

}  // namespace tessera::cuda
