#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

// Per logit: two products, two sums, exp and log1p.
void value_loss(const Tensor& logits, const Tensor& targets, ValueLoss /*loss*/, Tensor loss_sum) {
  log_work({.flops = 6.0 * elements_of(logits),
            .bytes_read = bytes_of(logits, targets, loss_sum),
            .bytes_written = bytes_of(loss_sum)});
}

void value_loss_gradient(Tensor logits, const Tensor& targets, ValueLoss /*loss*/,
                         const Scalar& scale) {
  log_work({.flops = 5.0 * elements_of(logits),
            .bytes_read = bytes_of(logits, targets, scale.tensor),
            .bytes_written = bytes_of(logits)});
}

}  // namespace tessera::meta
