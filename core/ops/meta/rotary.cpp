#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

// Per pair of dims: the frequency (2), the angle, its cosine and its sine.
void rotary_table(const Tensor& positions, const RotaryFormula& /*formula*/, Tensor table) {
  log_work({.flops = 5.0 / 2.0 * elements_of(table),
            .bytes_read = bytes_of(positions),
            .bytes_written = bytes_of(table)});
}

// 6 FLOPs for each pair of dims.
void rotary(const Tensor& table, float /*direction*/, int64_t heads, Tensor x) {
  if (heads == 0) return;
  const double turned = static_cast<double>(heads) / static_cast<double>(x.dim(2));
  log_work({.flops = 3.0 * turned * elements_of(x),
            .bytes_read = bytes_of(table) + turned * bytes_of(x),
            .bytes_written = turned * bytes_of(x)});
}

}  // namespace tessera::meta
