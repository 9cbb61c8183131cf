#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

// The formula of AdamWConstants. An fp32 value is the master itself.
void adamw_step(const AdamW& /*settings*/, const Tensor& grad_scale, const Tensor& grad,
                Tensor exp_avg, Tensor exp_avg_sq, Tensor master, Tensor value) {
  const bool rounds = value.dtype() != DType::f32;
  log_work(
      {.flops = 15.0 * elements_of(grad),
       .bytes_read = bytes_of(grad_scale, grad, exp_avg, exp_avg_sq, master),
       .bytes_written = bytes_of(exp_avg, exp_avg_sq, master) + (rounds ? bytes_of(value) : 0.0)});
}

}  // namespace tessera::meta
