#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// Ops that make one vector of each document. documents (S + 1) int32 are cumulative lengths, each
/// document at least one row long. fp32 or bf16, sums in fp32. Outputs may not alias inputs.

/// out[s] = (1 / length of document s) Σ x[row − first] over those rows of the document that x has:
/// a rank may have only the rows from `first` on. x (..., C); out (S, C), x's dtype or fp32. The
/// order of a sum depends only on the document's length and the rows that x has. If the documents
/// are parts of longer ones, which may be empty, `whole` (S + 1) has the cumulative lengths of
/// these, and lengths are theirs.
void pool_mean(const Tensor& x, const Tensor& documents, Tensor out, int64_t first = 0,
               const Tensor& whole = {});

/// dx[row − first] += dout[s] / length of document s, for the rows that dx has: the gradient of
/// pool_mean. dout (S, C), dx's dtype or fp32; dx (..., C).
void pool_mean_backward(const Tensor& dout, const Tensor& documents, Tensor dx, int64_t first = 0,
                        const Tensor& whole = {});

/// The smallest norm that normalize_rows divides by, as in torch.nn.functional.normalize.
inline constexpr float kSmallestNorm = 1e-12f;

/// y[n] = length × inverse_norm[n] × x[n], with inverse_norm[n] = 1 / max(‖x[n]‖, kSmallestNorm).
/// x (N, C), y (N, C) fp32, inverse_norm (N) fp32.
void normalize_rows(const Tensor& x, float length, Tensor y, Tensor inverse_norm);

/// dx[n] = length × inverse_norm[n] × (dy[n] − u (u · dy[n])), with the unit vector u = y[n] /
/// length: the gradient of normalize_rows. dy, y (N, C) fp32; dx (N, C) fp32 or bf16.
void normalize_rows_backward(const Tensor& dy, const Tensor& y, float length,
                             const Tensor& inverse_norm, Tensor dx);

}  // namespace tessera
