#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void ema_step(double /*decay*/, const Tensor& grad_scale, const Tensor& weight, Tensor ema) {
  log_work({.flops = 3.0 * elements_of(weight),
            .bytes_read = bytes_of(grad_scale, weight, ema),
            .bytes_written = bytes_of(ema)});
}

void ema_swap(Tensor weight, Tensor ema) {
  log_work({.bytes_read = bytes_of(weight, ema), .bytes_written = bytes_of(weight, ema)});
}

}  // namespace tessera::meta
