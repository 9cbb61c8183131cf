#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void checksum(const Tensor& x, Tensor out) {
  log_work({.bytes_read = bytes_of(x), .bytes_written = bytes_of(out)});
}

}  // namespace tessera::meta
