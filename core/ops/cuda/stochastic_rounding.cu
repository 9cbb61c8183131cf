#include "core/cuda/launch.h"
#include "core/cuda/pack_loop.h"
#include "core/cuda/stochastic_rounding.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

template <int N>
__global__ void round_kernel(const float* x, RandomRounding rounding, int64_t n, bfloat16* y) {
  for_each_pack<N>(n, [&](auto size, int64_t first) {
    rounding.store_rounded(load_floats<size()>(x + first), first, y);
  });
}

}  // namespace

void round_stochastically(const Tensor& x, const StochasticRounding& rounding, Tensor y) {
  constexpr int kPack = kPackSize<float>;
  const float* in = x.data<float>();
  bfloat16* out = y.data<bfloat16>();
  const int64_t n = x.numel();
  const bool packs = takes_packs<kPack>(in) && takes_packs<kPack>(out);
  launch("round_stochastically", one_dimensional(packs ? ceil_div(n, kPack) : n, kBlockThreads),
         packs ? round_kernel<kPack> : round_kernel<1>, in, RandomRounding(rounding), n, out);
}

}  // namespace tessera::cuda
