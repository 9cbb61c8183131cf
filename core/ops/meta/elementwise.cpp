#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void fill(Tensor tensor, double /*value*/) { log_work({.bytes_written = bytes_of(tensor)}); }

void copy(const Tensor& source, Tensor destination) {
  log_work({.bytes_read = bytes_of(source), .bytes_written = bytes_of(destination)});
}

void add(const Tensor& a, const Tensor& b, Tensor out) {
  log_work(
      {.flops = elements_of(out), .bytes_read = bytes_of(a, b), .bytes_written = bytes_of(out)});
}

void scale(const Tensor& x, float /*factor*/, Tensor y) {
  log_work({.flops = elements_of(x), .bytes_read = bytes_of(x), .bytes_written = bytes_of(y)});
}

void add_scaled(float /*a*/, const Tensor& x, float /*b*/, const Tensor& y, Tensor out) {
  log_work({.flops = 3.0 * elements_of(out),
            .bytes_read = bytes_of(x, y),
            .bytes_written = bytes_of(out)});
}

void scale_to_unit_norm(const Tensor& x, const Tensor& squares, float /*eps*/, Tensor y) {
  log_work(
      {.flops = elements_of(x), .bytes_read = bytes_of(x, squares), .bytes_written = bytes_of(y)});
}

}  // namespace tessera::meta
