#include "core/ops/meta/gelu.h"

#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void gelu_forward(const Tensor& x, Gelu kind, Tensor y) {
  log_work({.flops = gelu_flops(kind) * elements_of(x),
            .bytes_read = bytes_of(x),
            .bytes_written = bytes_of(y)});
}

void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor dx) {
  log_work({.flops = gelu_backward_flops(kind) * elements_of(x),
            .bytes_read = bytes_of(dy, x),
            .bytes_written = bytes_of(dx)});
}

}  // namespace tessera::meta
