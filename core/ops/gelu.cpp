#include "core/ops/gelu.h"

#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"

namespace tessera {

void gelu_forward(const Tensor& x, Gelu kind, Tensor y) {
  constexpr const char* kOp = "gelu_forward";
  require_float(x, kOp, "x");
  require_like(y, x, kOp, "y");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  if (any_meta(x, y)) return;
  cpu::gelu_forward(x, kind, y);
}

void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor dx) {
  constexpr const char* kOp = "gelu_backward";
  require_float(x, kOp, "x");
  require_like(dy, x, kOp, "dy");
  require_like(dx, x, kOp, "dx");
  require_same_or_disjoint(dx, "dx", dy, "dy", kOp);
  require_same_or_disjoint(dx, "dx", x, "x", kOp);
  if (any_meta(dy, x, dx)) return;
  cpu::gelu_backward(dy, x, kind, dx);
}

}  // namespace tessera
