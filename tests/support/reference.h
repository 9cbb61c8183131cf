#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ops/activation.h"
#include "core/ops/adamw.h"
#include "core/ops/lion.h"

/// Textbook loops in double precision, the reference for ops. Arrays are row-major.
namespace tessera::test::reference {

using Doubles = std::vector<double>;
using View = std::span<const double>;

struct LayerNorm {
  Doubles y, mean, rstd;
};
/// Layer norm, or RMS norm, whose mean is 0.
enum class Norm { layer, rms };
LayerNorm layer_norm(View x, View weight, View bias, int64_t columns, double eps,
                     Norm type = Norm::layer);

struct LayerNormGradient {
  Doubles dx, dweight, dbias;
};
LayerNormGradient layer_norm_gradient(View dy, View x, View weight, int64_t columns, double eps,
                                      Norm type = Norm::layer);

double activation(double x, Activation f);
double activation_slope(double x, Activation f);

/// Returns the loss of each row; 0 if the target is negative.
Doubles cross_entropy(View logits, std::span<const int32_t> targets, int64_t columns);
/// Returns d (Σ of the rows' losses) / d logits.
Doubles cross_entropy_gradient(View logits, std::span<const int32_t> targets, int64_t columns);

struct AdamWState {
  double weight, exp_avg, exp_avg_sq;
};
AdamWState adamw(const AdamW& settings, double grad, AdamWState before);

struct LionState {
  double weight, exp_avg;
};
LionState lion(const Lion& settings, double grad, LionState before);

/// The Newton-Schulz iteration of Muon for a matrix, always with x xᵀ.
Doubles orthogonalized(View x, int64_t rows, int64_t columns, int64_t steps);

/// Returns the sum over rows.
Doubles column_sum(View x, int64_t columns);

}  // namespace tessera::test::reference
