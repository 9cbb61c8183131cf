#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

// A rank that has only some rows of the matrix reads or changes at most as many as it has.
void gather_rows(const Tensor& x, const Tensor& rows, Tensor out, int64_t /*first*/) {
  log_work({.bytes_read = bytes_of(rows) + bytes_of_rows(x, rows.numel()),
            .bytes_written = bytes_of(out)});
}

void scatter_add_rows(const Tensor& dout, const Tensor& rows, Tensor dx, int64_t /*first*/) {
  const double changed = bytes_of_rows(dx, rows.numel());
  log_work({.flops = elements_of(dout),
            .bytes_read = bytes_of(rows) + bytes_of_rows(dout, rows_of(dx)) + changed,
            .bytes_written = changed});
}

void argmax_rows(const Tensor& x, Tensor out) {
  log_work({.flops = elements_of(x), .bytes_read = bytes_of(x), .bytes_written = bytes_of(out)});
}

void gather_ints(const Tensor& /*values*/, const Tensor& rows, Tensor out) {
  log_work({.bytes_read = bytes_of(rows, out), .bytes_written = bytes_of(out)});
}

void count_equal(const Tensor& a, const Tensor& b, Tensor count) {
  log_work({.flops = elements_of(a),
            .bytes_read = bytes_of(a, b, count),
            .bytes_written = bytes_of(count)});
}

}  // namespace tessera::meta
