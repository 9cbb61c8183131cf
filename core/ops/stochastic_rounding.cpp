#include "core/ops/stochastic_rounding.h"

#include "core/error.h"
#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"
#include "core/ops/cuda/ops.h"

namespace tessera {

void round_stochastically(const Tensor& x, const StochasticRounding& rounding, Tensor y) {
  constexpr const char* kOp = "round_stochastically";
  require_dtype(x, DType::f32, kOp, "x");
  require_dtype(y, DType::bf16, kOp, "y");
  require(y.numel() == x.numel(), "{}: y must have the {} elements of x, but is {}", kOp, x.numel(),
          describe(y));
  require_disjoint(y, "y", x, "x", kOp);
  const Device device = common_device(kOp, x, y);
  if (device.is_meta()) return;
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return cuda::round_stochastically(x, rounding, y);
  }
  cpu::round_stochastically(x, rounding, y);
}

}  // namespace tessera
