#pragma once

#include "core/random.h"
#include "core/tensor.h"

namespace tessera {

/// Which elements dropout zeroes: element (row, c) of a (..., C) tensor has the global index
/// (first_row + rows[row]) × C + c in the stream of `key`. A micro-batch or a data rank thus drops
/// what the whole batch would, with or without padding. If the tensor has columns of a wider one,
/// the index is (first_row + rows[row]) × total_columns + first_column + c. Kept elements are
/// scaled by 1 / (1 − probability).
struct Dropout {
  float probability = 0.0f;
  RandomKey key = {};
  int64_t first_row = 0;
  /// One int32 for each row of the tensor; undefined: rows[row] = row.
  Tensor rows = {};
  /// {step, first sequence}, (2) int64 on the tensor's device. If defined, it replaces key.step,
  /// and first_row by first sequence × sequence_rows. Kernels read it when they run, so a captured
  /// CUDA graph draws new bits at each launch.
  Tensor rng_offset = {};
  int64_t sequence_rows = 1;
  int64_t first_column = 0;
  int64_t total_columns = 0;  ///< of all tensor ranks; 0: the tensor has all. Not for fused ops

  bool active() const { return probability > 0.0f; }
  /// An element is dropped if its 32 random bits are below this.
  uint32_t threshold() const;
  float scale() const { return 1.0f / (1.0f - probability); }
  /// This dropout with key.step and first_row read from rng_offset, which must be in host
  /// memory, and without rng_offset.
  Dropout resolved() const;
};

/// Throws, naming `op`, unless the dropout fits x (..., C), of which it has all columns.
void require_dropout(const Dropout& dropout, const Tensor& x, const char* op);

/// y = dropout(x), (..., C) fp32 or bf16. y may alias x. No mask is stored: the random bits are
/// recomputed in the backward pass.
void dropout_forward(const Tensor& x, const Dropout& dropout, Tensor y);

/// dx = the gradient of dropout_forward. dx may alias dy.
void dropout_backward(const Tensor& dy, const Dropout& dropout, Tensor dx);

/// out = residual + dropout(x + bias), the end of a residual branch, in one pass. x, residual, out
/// (..., C), bias (C) or undefined; one dtype, fp32 or bf16, sums in fp32. out may alias x or
/// residual.
void bias_dropout_add(const Tensor& x, const Tensor& bias, const Tensor& residual,
                      const Dropout& dropout, Tensor out);

}  // namespace tessera
