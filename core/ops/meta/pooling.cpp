#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void pool_mean(const Tensor& x, const Tensor& documents, Tensor out, int64_t /*first*/,
               const Tensor& /*whole*/) {
  log_work({.flops = elements_of(x) + elements_of(out),
            .bytes_read = bytes_of(x, documents),
            .bytes_written = bytes_of(out)});
}

void pool_mean_backward(const Tensor& dout, const Tensor& documents, Tensor dx, int64_t /*first*/,
                        const Tensor& /*whole*/) {
  log_work({.flops = 2.0 * elements_of(dx),
            .bytes_read = bytes_of(dout, documents, dx),
            .bytes_written = bytes_of(dx)});
}

void normalize_rows(const Tensor& x, float /*length*/, Tensor y, Tensor inverse_norm) {
  log_work({.flops = 3.0 * elements_of(x),
            .bytes_read = bytes_of(x),
            .bytes_written = bytes_of(y, inverse_norm)});
}

void normalize_rows_backward(const Tensor& dy, const Tensor& y, float /*length*/,
                             const Tensor& inverse_norm, Tensor dx) {
  log_work({.flops = 5.0 * elements_of(y),
            .bytes_read = bytes_of(dy, y, inverse_norm),
            .bytes_written = bytes_of(dx)});
}

}  // namespace tessera::meta
