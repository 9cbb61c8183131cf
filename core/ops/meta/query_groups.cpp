#include "core/ops/query_groups.h"

#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void split_groups(const Tensor& grouped, Tensor qkv) {
  log_work({.bytes_read = bytes_of(grouped), .bytes_written = bytes_of(qkv)});
}

void split_groups_backward(const Tensor& dqkv, Tensor dgrouped) {
  log_work({.bytes_read = bytes_of(dqkv), .bytes_written = bytes_of(dgrouped)});
}

// The square, and its product with rstd and weight.
void normalize_and_split(const Tensor& grouped, const QueryKeyNorm& norm, Tensor qkv, Tensor rstd) {
  log_work({.flops = 4.0 * elements_of(grouped),
            .bytes_read = bytes_of(grouped, norm.query_weight, norm.key_weight),
            .bytes_written = bytes_of(qkv, rstd)});
}

// As layer_norm_backward: the normalized value, two sums, the gradient.
void normalize_and_split_backward(const Tensor& dqkv, const Tensor& grouped,
                                  const QueryKeyNorm& norm, const Tensor& rstd, Tensor dgrouped,
                                  Tensor dquery_weight, Tensor dkey_weight,
                                  Accumulate /*accumulate*/) {
  log_work({.flops = 10.0 * elements_of(grouped),
            .bytes_read = bytes_of(dqkv, grouped, norm.query_weight, norm.key_weight, rstd),
            .bytes_written = bytes_of(dgrouped, dquery_weight, dkey_weight)});
}

}  // namespace tessera::meta
