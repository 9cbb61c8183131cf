#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void store_key_values(const Tensor& qkv, int64_t /*first*/, Tensor /*keys*/, Tensor /*values*/) {
  const double moved = bytes_of(qkv) * 2.0 / 3.0;
  log_work({.bytes_read = moved, .bytes_written = moved});
}

}  // namespace tessera::meta
