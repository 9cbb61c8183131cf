#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void add_sum_of_squares(const Tensor& x, Tensor out) {
  log_work({.flops = 2.0 * elements_of(x),
            .bytes_read = bytes_of(x, out),
            .bytes_written = bytes_of(out)});
}

void column_sum(const Tensor& x, Tensor out, Accumulate accumulate) {
  log_work({.flops = elements_of(x),
            .bytes_read = bytes_of(x) + (accumulate == Accumulate::yes ? bytes_of(out) : 0.0),
            .bytes_written = bytes_of(out)});
}

}  // namespace tessera::meta
