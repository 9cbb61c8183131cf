#pragma once

#include "core/range.h"
#include "core/tensor.h"

namespace tessera {

/// Rows of an embedding table that is split over ranks by rows: this rank holds global rows `held`
/// as the first rows of `table` (at least held.size(), C).

/// out[n] = table[ids[n] − held.begin], or zeros where another rank holds the row.
/// ids (...) int32, out (..., C) in table's dtype.
void embedding_forward(const Tensor& ids, const Tensor& table, Range held, Tensor out);

/// dtable[ids[n] − held.begin] += dout[n] for the ids that this rank holds, in order of n whatever
/// the number of threads. dout fp32 or bf16, dtable fp32.
void embedding_backward(const Tensor& ids, const Tensor& dout, Range held, Tensor dtable);

/// out[b, t] = x[b, t] + table[first + t]. x, out (B, T, C), table (at least first + T, C), one
/// dtype. out may alias x. `first` is the position of t = 0 (other than 0 only in generation).
void add_positions_forward(const Tensor& x, const Tensor& table, int64_t first, Tensor out);

/// dtable[t] += Σ_b dout[b, t], in order of b. dtable fp32.
void add_positions_backward(const Tensor& dout, Tensor dtable);

}  // namespace tessera
