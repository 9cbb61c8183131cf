#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

// Random bits are integers and count as no FLOPs.
void dropout(const Tensor& x, const Dropout& dropout, Tensor y) {
  log_work({.flops = elements_of(x),
            .bytes_read = bytes_of(x, dropout.rows),
            .bytes_written = bytes_of(y)});
}

void bias_dropout_add(const Tensor& x, const Tensor& bias, const Tensor& residual,
                      const Dropout& dropout, Tensor out) {
  const double flops = 1.0 + (bias.defined() ? 1.0 : 0.0) + (dropout.active() ? 1.0 : 0.0);
  log_work({.flops = flops * elements_of(x),
            .bytes_read =
                bytes_of(x, bias, residual) + (dropout.active() ? bytes_of(dropout.rows) : 0.0),
            .bytes_written = bytes_of(out)});
}

}  // namespace tessera::meta
