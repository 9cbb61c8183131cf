#include "core/ops/cpu/stochastic_rounding.h"

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {

void round_stochastically(const Tensor& x, const StochasticRounding& rounding, Tensor y) {
  const float* in = x.data<float>();
  bfloat16* out = y.data<bfloat16>();
  parallel_for(x.numel(), kGrain,
               [=](int64_t begin, int64_t end) { round_elements(rounding, begin, end, in, out); });
}

}  // namespace tessera::cpu
