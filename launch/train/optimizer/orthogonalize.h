#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/tensor.h"

namespace tessera {

/// Replaces a matrix x = U Σ Vᵀ (rows, columns), fp32 or bf16, by about scale × U Vᵀ: `steps` times
///
///     x = a x + b (x xᵀ) x + c (x xᵀ)² x,  a = 3.4445, b = −4.7750, c = 2.0315,
///
/// after division by its Frobenius norm (Jordan et al., "Muon", 2024). The coefficients let small
/// singular values grow fastest, at the price that they do not converge to 1: after 5 steps, those
/// that were at least 0.01 of the norm are between about 0.7 and 1.2. A matrix of zeros stays so.
/// Products are of the smaller of the two sizes; they and all scratch memory, from `arena`, have
/// x's dtype. bf16 suffices, because the singular values need not be exact.
void orthogonalize(const Tensor& x, int64_t steps, float scale, Arena& arena);

}  // namespace tessera
