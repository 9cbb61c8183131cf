#include "core/ops/stochastic_rounding.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void round_stochastically(const Tensor& x, const StochasticRounding& rounding, Tensor y) {
  constexpr const char* kOp = "round_stochastically";
  const OpRange range(kOp);
  require_dtype(x, DType::f32, kOp, "x");
  require_dtype(y, DType::bf16, kOp, "y");
  require(y.numel() == x.numel(), "{}: y must have the {} elements of x, but is {}", kOp, x.numel(),
          describe(y));
  require_disjoint(y, "y", x, "x", kOp);
  const Device device = common_device(kOp, x, y);
  dispatch<cpu::round_stochastically, cuda::round_stochastically, meta::round_stochastically>(
      device, x, rounding, y);
}

}  // namespace tessera
