#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ops/adamw.h"
#include "core/ops/gelu.h"

/// Textbook loops in double precision, the reference for ops. Arrays are row-major.
namespace tessera::test::reference {

using Doubles = std::vector<double>;
using View = std::span<const double>;

struct LayerNorm {
  Doubles y, mean, rstd;
};
LayerNorm layer_norm(View x, View weight, View bias, int64_t columns, double eps);

struct LayerNormGradient {
  Doubles dx, dweight, dbias;
};
LayerNormGradient layer_norm_gradient(View dy, View x, View weight, int64_t columns, double eps);

double gelu(double x, Gelu kind);
double gelu_slope(double x, Gelu kind);

/// Returns the loss of each row; 0 if the target is negative.
Doubles cross_entropy(View logits, std::span<const int32_t> targets, int64_t columns);
/// Returns d (Σ of the rows' losses) / d logits.
Doubles cross_entropy_gradient(View logits, std::span<const int32_t> targets, int64_t columns);

struct AdamWState {
  double weight, exp_avg, exp_avg_sq;
};
AdamWState adamw(const AdamW& settings, double grad, AdamWState before);

/// Returns the sum over rows.
Doubles column_sum(View x, int64_t columns);

}  // namespace tessera::test::reference
