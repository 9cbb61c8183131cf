#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void join_columns(const Tensor& parts, Tensor out) {
  log_work({.bytes_read = elements_of(out) * static_cast<double>(size_of(parts.dtype())),
            .bytes_written = bytes_of(out)});
}

void copy_columns(const Tensor& x, int64_t /*first_x*/, Tensor /*out*/, int64_t /*first_out*/,
                  int64_t columns) {
  const double bytes =
      static_cast<double>(x.dim(0) * columns) * static_cast<double>(size_of(x.dtype()));
  log_work({.bytes_read = bytes, .bytes_written = bytes});
}

}  // namespace tessera::meta
