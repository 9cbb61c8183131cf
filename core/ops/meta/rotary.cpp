#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

// Of each pair of dims the frequency (2), the angle, its cosine and its sine.
void rotary_table(const Tensor& positions, const RotaryFormula& /*formula*/, Tensor table) {
  log_work({.flops = 5.0 / 2.0 * elements_of(table),
            .bytes_read = bytes_of(positions),
            .bytes_written = bytes_of(table)});
}

// 6 FLOPs for each pair of dims of queries and keys.
void rotary(const Tensor& table, float /*direction*/, Tensor qkv) {
  const double turned = 2.0 / 3.0;
  log_work({.flops = 3.0 * turned * elements_of(qkv),
            .bytes_read = bytes_of(table) + turned * bytes_of(qkv),
            .bytes_written = turned * bytes_of(qkv)});
}

}  // namespace tessera::meta
