#pragma once

#include <algorithm>

#include "core/cuda/launch.h"
#include "core/cuda/packs.h"

namespace tessera::cuda {

template <int N, typename To, typename Function, typename... From>
__device__ void map_pack(int64_t first, Function function, To* out, const From*... in) {
  const auto apply = [&](const auto&... x) {
    Floats<N> result;
    for (int i = 0; i < N; ++i) result.at[i] = function(x.at[i]...);
    store_floats(result, out + first);
  };
  apply(load_floats<N>(in + first)...);
}

template <int N, typename Function, typename To, typename... From>
__global__ void map_kernel(int64_t n, Function function, To* out, const From*... in) {
  // With for_each_pack(), one of these kernels needs 56 registers instead of 40 on sm_100.
  const int64_t packs = n / N;
  for (int64_t i = global_thread(); i < packs; i += global_threads()) {
    map_pack<N>(i * N, function, out, in...);
  }
  for (int64_t i = packs * N + global_thread(); i < n; i += global_threads()) {
    map_pack<1>(i, function, out, in...);
  }
}

/// Enqueues out[i] = function(in[i]...) for i < n, in fp32; out may alias an input. Each thread
/// makes one access of 16 bytes per input. That keeps enough reads in flight, because the kernel
/// needs few registers: an SM's 2048 threads request 32 KiB and more at a time. `function` is a
/// class with a __device__ call operator.
template <typename Function, typename To, typename... From>
void map(const char* what, int64_t n, Function function, To* out, const From*... in) {
  constexpr int kPack = std::min({kPackSize<To>, kPackSize<From>...});
  using Kernel = void (*)(int64_t, Function, To*, const From*...);
  const bool packs = takes_packs<kPack>(out) && (takes_packs<kPack>(in) && ...);
  const Kernel kernel = packs ? Kernel{map_kernel<kPack, Function, To, From...>}
                              : map_kernel<1, Function, To, From...>;
  launch(what, one_dimensional(packs ? ceil_div(n, kPack) : n, kBlockThreads), kernel, n, function,
         out, in...);
}

}  // namespace tessera::cuda
