#include "core/ops/activation.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

/// Requires `gated` (..., 2 F) for `y` (..., F).
void require_gated(const Tensor& gated, const Tensor& y, const char* op, const char* name,
                   const char* y_name) {
  require_float(y, op, y_name);
  require_float(gated, op, name);
  require_dtype(gated, y.dtype(), op, name);
  require(rows_of(gated) == rows_of(y) && columns_of(gated) == 2 * columns_of(y),
          "{}: {} must have the {} rows of {} and twice its {} columns, but is {}", op, name,
          rows_of(y), y_name, columns_of(y), describe(gated));
}

}  // namespace

void activation_forward(const Tensor& x, Activation f, Tensor y) {
  const OpRange range("activation_forward");
  constexpr const char* kOp = "activation_forward";
  require_float(x, kOp, "x");
  require_like(y, x, kOp, "y");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  const Device device = common_device(kOp, x, y);
  dispatch<cpu::activation_forward, cuda::activation_forward, meta::activation_forward>(device, x,
                                                                                        f, y);
}

void activation_backward(const Tensor& dy, const Tensor& x, Activation f, Tensor dx) {
  const OpRange range("activation_backward");
  constexpr const char* kOp = "activation_backward";
  require_float(x, kOp, "x");
  require_like(dy, x, kOp, "dy");
  require_like(dx, x, kOp, "dx");
  require_same_or_disjoint(dx, "dx", dy, "dy", kOp);
  require_same_or_disjoint(dx, "dx", x, "x", kOp);
  const Device device = common_device(kOp, dy, x, dx);
  dispatch<cpu::activation_backward, cuda::activation_backward, meta::activation_backward>(
      device, dy, x, f, dx);
}

void gated_activation_forward(const Tensor& gate_up, Activation f, Tensor y) {
  const OpRange range("gated_activation_forward");
  constexpr const char* kOp = "gated_activation_forward";
  require_gated(gate_up, y, kOp, "gate_up", "y");
  require_disjoint(y, "y", gate_up, "gate_up", kOp);
  const Device device = common_device(kOp, gate_up, y);
  dispatch<cpu::gated_activation_forward, cuda::gated_activation_forward,
           meta::gated_activation_forward>(device, gate_up, f, y);
}

void gated_activation_backward(const Tensor& dy, const Tensor& gate_up, Activation f,
                               Tensor dgate_up) {
  const OpRange range("gated_activation_backward");
  constexpr const char* kOp = "gated_activation_backward";
  require_gated(gate_up, dy, kOp, "gate_up", "dy");
  require_like(dgate_up, gate_up, kOp, "dgate_up");
  require_disjoint(dgate_up, "dgate_up", dy, "dy", kOp);
  require_same_or_disjoint(dgate_up, "dgate_up", gate_up, "gate_up", kOp);
  const Device device = common_device(kOp, dy, gate_up, dgate_up);
  dispatch<cpu::gated_activation_backward, cuda::gated_activation_backward,
           meta::gated_activation_backward>(device, dy, gate_up, f, dgate_up);
}

}  // namespace tessera
