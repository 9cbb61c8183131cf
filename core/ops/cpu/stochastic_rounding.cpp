#include "core/ops/cpu/stochastic_rounding.h"

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {

void round_stochastically(const Tensor& x, const StochasticRounding& rounding, Tensor y) {
  const float* in = x.data<float>();
  bfloat16* out = y.data<bfloat16>();
  parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
    for_each_tile(rounding, begin, end, [=](int64_t first, int64_t count, const uint32_t* words) {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        out[first + i] = tessera::round_stochastically(in[first + i], words[i]);
      }
    });
  });
}

}  // namespace tessera::cpu
