#include "core/ops/gelu.h"

#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"
#include "core/ops/cuda/ops.h"
#include "core/trace/trace.h"

namespace tessera {

void gelu_forward(const Tensor& x, Gelu kind, Tensor y) {
  const TraceRange range("gelu_forward");
  constexpr const char* kOp = "gelu_forward";
  require_float(x, kOp, "x");
  require_like(y, x, kOp, "y");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  const Device device = common_device(kOp, x, y);
  if (device.is_meta()) return;
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return cuda::gelu_forward(x, kind, y);
  }
  cpu::gelu_forward(x, kind, y);
}

void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor dx) {
  const TraceRange range("gelu_backward");
  constexpr const char* kOp = "gelu_backward";
  require_float(x, kOp, "x");
  require_like(dy, x, kOp, "dy");
  require_like(dx, x, kOp, "dx");
  require_same_or_disjoint(dx, "dx", dy, "dy", kOp);
  require_same_or_disjoint(dx, "dx", x, "x", kOp);
  const Device device = common_device(kOp, dy, x, dx);
  if (device.is_meta()) return;
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return cuda::gelu_backward(dy, x, kind, dx);
  }
  cpu::gelu_backward(dy, x, kind, dx);
}

}  // namespace tessera
