#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {
namespace {

double valid_elements(const Tensor& logits, int64_t valid) {
  return static_cast<double>(logits.dim(0)) * static_cast<double>(valid);
}

double valid_bytes(const Tensor& logits, int64_t valid) {
  return valid_elements(logits, valid) * static_cast<double>(size_of(logits.dtype()));
}

}  // namespace

// Per logit: a maximum, a difference, exp and a sum.
void cross_entropy_statistics(const Tensor& logits, const Tensor& targets, int64_t /*first*/,
                              int64_t valid, Tensor row_max, Tensor row_sum, Tensor target_logit) {
  log_work({.flops = 4.0 * valid_elements(logits, valid),
            .bytes_read = valid_bytes(logits, valid) + bytes_of(targets),
            .bytes_written = bytes_of(row_max, row_sum, target_logit)});
}

// Writes zeros to the columns of padding, which it does not read.
void cross_entropy_gradient(Tensor logits, const Tensor& targets, int64_t /*first*/, int64_t valid,
                            const Tensor& log_sum_exp, const Scalar& scale) {
  log_work({.flops = 3.0 * valid_elements(logits, valid),
            .bytes_read = valid_bytes(logits, valid) + bytes_of(targets, log_sum_exp, scale.tensor),
            .bytes_written = bytes_of(logits)});
}

void cross_entropy_with_gradient(Tensor logits, const Tensor& targets, int64_t valid,
                                 const Scalar& scale, Tensor row_max, Tensor row_sum,
                                 Tensor target_logit) {
  log_work({.flops = 7.0 * valid_elements(logits, valid),
            .bytes_read = valid_bytes(logits, valid) + bytes_of(targets, scale.tensor),
            .bytes_written = bytes_of(logits, row_max, row_sum, target_logit)});
}

void rescale_sum_exp(const Tensor& row_max, const Tensor& global_max, Tensor row_sum) {
  log_work({.flops = 3.0 * elements_of(row_sum),
            .bytes_read = bytes_of(row_max, global_max, row_sum),
            .bytes_written = bytes_of(row_sum)});
}

void cross_entropy_loss(const Tensor& global_max, const Tensor& sum_exp, const Tensor& target_logit,
                        const Tensor& targets, Tensor log_sum_exp, Tensor loss_sum) {
  log_work({.flops = 4.0 * elements_of(targets),
            .bytes_read = bytes_of(global_max, sum_exp, target_logit, targets, loss_sum),
            .bytes_written = bytes_of(log_sum_exp, loss_sum)});
}

void cross_entropy_correct(const Tensor& global_max, const Tensor& target_logit,
                           const Tensor& targets, Tensor correct) {
  log_work({.flops = 2.0 * elements_of(targets),
            .bytes_read = bytes_of(global_max, target_logit, targets, correct),
            .bytes_written = bytes_of(correct)});
}

}  // namespace tessera::meta
