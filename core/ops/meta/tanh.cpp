#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void tanh_forward(const Tensor& x, Tensor y) {
  log_work({.flops = elements_of(x), .bytes_read = bytes_of(x), .bytes_written = bytes_of(y)});
}

void tanh_backward(const Tensor& dy, const Tensor& y, Tensor dx) {
  log_work({.flops = 3.0 * elements_of(y),
            .bytes_read = bytes_of(dy, y),
            .bytes_written = bytes_of(dx)});
}

}  // namespace tessera::meta
