#include "core/ops/tanh.h"

#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"

namespace tessera {

void tanh_forward(const Tensor& x, Tensor y) {
  constexpr const char* kOp = "tanh_forward";
  require_float(x, kOp, "x");
  require_like(y, x, kOp, "y");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  if (any_meta(x, y)) return;
  cpu::tanh_forward(x, y);
}

void tanh_backward(const Tensor& dy, const Tensor& y, Tensor dx) {
  constexpr const char* kOp = "tanh_backward";
  require_float(y, kOp, "y");
  require_like(dy, y, kOp, "dy");
  require_like(dx, y, kOp, "dx");
  require_same_or_disjoint(dx, "dx", dy, "dy", kOp);
  require_same_or_disjoint(dx, "dx", y, "y", kOp);
  if (any_meta(dy, y, dx)) return;
  cpu::tanh_backward(dy, y, dx);
}

}  // namespace tessera
