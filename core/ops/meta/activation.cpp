#include "core/ops/meta/activation.h"

#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void activation_forward(const Tensor& x, Activation f, Tensor y) {
  log_work({.flops = activation_flops(f) * elements_of(x),
            .bytes_read = bytes_of(x),
            .bytes_written = bytes_of(y)});
}

void activation_backward(const Tensor& dy, const Tensor& x, Activation f, Tensor dx) {
  log_work({.flops = activation_backward_flops(f) * elements_of(x),
            .bytes_read = bytes_of(dy, x),
            .bytes_written = bytes_of(dx)});
}

void gated_activation_forward(const Tensor& gate_up, Activation f, Tensor y) {
  log_work({.flops = (activation_flops(f) + 1.0) * elements_of(y),
            .bytes_read = bytes_of(gate_up),
            .bytes_written = bytes_of(y)});
}

// f(gate) again, dy × up × f'(gate), and dy × f(gate).
void gated_activation_backward(const Tensor& dy, const Tensor& gate_up, Activation f,
                               Tensor dgate_up) {
  const double flops = activation_flops(f) + activation_backward_flops(f) + 2.0;
  log_work({.flops = flops * elements_of(dy),
            .bytes_read = bytes_of(dy, gate_up),
            .bytes_written = bytes_of(dgate_up)});
}

}  // namespace tessera::meta
