#include "core/ops/query_groups.h"

#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void repeat_key_values(const Tensor& grouped, Tensor qkv) {
  log_work({.bytes_read = bytes_of(grouped), .bytes_written = bytes_of(qkv)});
}

void repeat_key_values_backward(const Tensor& dqkv, Tensor dgrouped) {
  log_work({.flops = elements_of(dqkv) - elements_of(dgrouped),
            .bytes_read = bytes_of(dqkv),
            .bytes_written = bytes_of(dgrouped)});
}

}  // namespace tessera::meta
