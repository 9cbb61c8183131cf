#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void alibi_bias(int64_t /*first_head*/, int64_t /*total_heads*/, Tensor table) {
  log_work({.flops = elements_of(table), .bytes_written = bytes_of(table)});
}

void relative_bias(const Tensor& weights, const BucketRanges& /*buckets*/, Tensor table) {
  log_work({.bytes_read = bytes_of(weights), .bytes_written = bytes_of(table)});
}

void relative_bias_backward(const Tensor& dtable, const BucketRanges& /*buckets*/,
                            Tensor dweights) {
  log_work({.flops = elements_of(dtable),
            .bytes_read = bytes_of(dtable, dweights),
            .bytes_written = bytes_of(dweights)});
}

}  // namespace tessera::meta
