#include "core/ops/gelu.h"

#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void gelu_forward(const Tensor& x, Gelu kind, Tensor y) {
  const OpRange range("gelu_forward");
  constexpr const char* kOp = "gelu_forward";
  require_float(x, kOp, "x");
  require_like(y, x, kOp, "y");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  const Device device = common_device(kOp, x, y);
  dispatch<cpu::gelu_forward, cuda::gelu_forward, meta::gelu_forward>(device, x, kind, y);
}

void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor dx) {
  const OpRange range("gelu_backward");
  constexpr const char* kOp = "gelu_backward";
  require_float(x, kOp, "x");
  require_like(dy, x, kOp, "dy");
  require_like(dx, x, kOp, "dx");
  require_same_or_disjoint(dx, "dx", dy, "dy", kOp);
  require_same_or_disjoint(dx, "dx", x, "x", kOp);
  const Device device = common_device(kOp, dy, x, dx);
  dispatch<cpu::gelu_backward, cuda::gelu_backward, meta::gelu_backward>(device, dy, x, kind, dx);
}

}  // namespace tessera
