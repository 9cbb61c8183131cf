#pragma once

#include <cstdint>

#include "core/ops/scalar.h"
#include "core/tensor.h"

namespace tessera {

/// The loss of one logit x with a number t as its target:
///
///     mse              (x − t)²
///     bce_with_logits  −t log σ(x) − (1 − t) log(1 − σ(x)), for t in [0, 1]: a label that is
///                      present (1) or not (0), whatever the other labels are
enum class ValueLoss : uint8_t { mse, bce_with_logits };

/// loss_sum (1) fp64 += Σ_n mean_k loss(logits[n, k], targets[n, k]). logits (N, K) fp32 or bf16,
/// targets (N, K) fp32, K ≥ 1. The order of the sum does not depend on the number of threads.
void value_loss(const Tensor& logits, const Tensor& targets, ValueLoss loss, Tensor loss_sum);

/// Replaces the logits by the gradient of scale × that sum: scale / K × 2 (x − t) for mse, scale /
/// K × (σ(x) − t) for bce_with_logits.
void value_loss_gradient(Tensor logits, const Tensor& targets, ValueLoss loss, const Scalar& scale);

}  // namespace tessera
