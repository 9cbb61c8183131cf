#include "core/ops/tanh.h"

#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void tanh_forward(const Tensor& x, Tensor y) {
  const OpRange range("tanh_forward");
  constexpr const char* kOp = "tanh_forward";
  require_float(x, kOp, "x");
  require_like(y, x, kOp, "y");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  const Device device = common_device(kOp, x, y);
  dispatch<cpu::tanh_forward, cuda::tanh_forward, meta::tanh_forward>(device, x, y);
}

void tanh_backward(const Tensor& dy, const Tensor& y, Tensor dx) {
  const OpRange range("tanh_backward");
  constexpr const char* kOp = "tanh_backward";
  require_float(y, kOp, "y");
  require_like(dy, y, kOp, "dy");
  require_like(dx, y, kOp, "dx");
  require_same_or_disjoint(dx, "dx", dy, "dy", kOp);
  require_same_or_disjoint(dx, "dx", y, "y", kOp);
  const Device device = common_device(kOp, dy, y, dx);
  dispatch<cpu::tanh_backward, cuda::tanh_backward, meta::tanh_backward>(device, dy, y, dx);
}

}  // namespace tessera
