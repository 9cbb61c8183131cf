#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

// An fp32 value is the master itself.
void lion_step(const Lion& /*settings*/, const Tensor& grad_scale, const Tensor& grad,
               Tensor exp_avg, Tensor master, Tensor value) {
  const bool rounds = value.dtype() != DType::f32;
  log_work({.flops = 10.0 * elements_of(grad),
            .bytes_read = bytes_of(grad_scale, grad, exp_avg, master),
            .bytes_written = bytes_of(exp_avg, master) + (rounds ? bytes_of(value) : 0.0)});
}

}  // namespace tessera::meta
