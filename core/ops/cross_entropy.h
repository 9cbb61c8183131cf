#pragma once

#include "core/ops/scalar.h"
#include "core/tensor.h"

namespace tessera {

/// The target of a position that has no loss.
inline constexpr int32_t kIgnoreTarget = -1;

/// Softmax cross-entropy for logits whose columns are split over ranks. This rank has columns
/// [first, first + valid) of the vocabulary as the first `valid` columns of logits (N, Vl), fp32 or
/// bf16; the other columns are padding of any value and count as −inf. The caller combines the
/// ranks' statistics; then loss = log(sum_exp) + max − target_logit.

/// Writes row_max[n] = max_v logits[n, v] (−inf if valid is 0), row_sum[n] = Σ_v exp(logits[n, v] −
/// row_max[n]), and target_logit[n] = logits[n, targets[n]], or 0 if another rank has it or the
/// target is kIgnoreTarget. One pass over the logits. targets (N) int32, outputs (N) fp32.
void cross_entropy_statistics(const Tensor& logits, const Tensor& targets, int64_t first,
                              int64_t valid, Tensor row_max, Tensor row_sum, Tensor target_logit);

/// row_sum[n] ×= exp(row_max[n] − global_max[n]): rescales a rank's sum to the maximum of all
/// ranks. All (N) fp32.
void rescale_sum_exp(const Tensor& row_max, const Tensor& global_max, Tensor row_sum);

/// From the combined statistics (N) fp32: writes log_sum_exp[n] = global_max[n] + log(sum_exp[n]),
/// and adds Σ_n log_sum_exp[n] − target_logit[n] over the rows with a target to loss_sum (1) fp64.
/// log_sum_exp may alias global_max.
void cross_entropy_loss(const Tensor& global_max, const Tensor& sum_exp, const Tensor& target_logit,
                        const Tensor& targets, Tensor log_sum_exp, Tensor loss_sum);

/// correct (1) fp64 += the number of rows whose target has the largest logit; ties count.
/// global_max, target_logit (N) fp32: the combined statistics.
void cross_entropy_correct(const Tensor& global_max, const Tensor& target_logit,
                           const Tensor& targets, Tensor correct);

/// Replaces the logits by their gradient: logits[n, v] = scale × (exp(logits[n, v] −
/// log_sum_exp[n]) − [v is the target]); zero in padding columns and in rows whose target is
/// kIgnoreTarget.
void cross_entropy_gradient(Tensor logits, const Tensor& targets, int64_t first, int64_t valid,
                            const Tensor& log_sum_exp, const Scalar& scale);

/// For a rank with the whole vocabulary: cross_entropy_statistics(), then cross_entropy_gradient()
/// with log_sum_exp[n] = row_max[n] + log(row_sum[n]), in one, with the same bits. Logits and their
/// gradient are moved once each, if a GPU's shared memory has room for a row. `valid` is the size
/// of the vocabulary, and targets are below it.
void cross_entropy_with_gradient(Tensor logits, const Tensor& targets, int64_t valid,
                                 const Scalar& scale, Tensor row_max, Tensor row_sum,
                                 Tensor target_logit);

}  // namespace tessera
