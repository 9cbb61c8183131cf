#pragma once

#include "core/range.h"
#include "core/tensor.h"

namespace tessera {

/// An embedding table whose rows are split over ranks: this rank has global rows `local_rows` as
/// the first rows of `table` (at least local_rows.size(), C).

/// out[n] = table[ids[n] − local_rows.begin], or zeros if another rank has the row. ids (...)
/// int32, out (..., C) in table's dtype, fp32 or bf16.
void embedding_forward(const Tensor& ids, const Tensor& table, Range local_rows, Tensor out);

/// dtable[ids[n] − local_rows.begin] += dout[n] for the ids of local rows. On the CPU in the order
/// of n, for any number of threads; on a GPU the tokens of a row beyond its first 64 are summed in
/// groups of 64, in an order that depends only on their number. dout (..., C) fp32 or bf16, dtable
/// fp32.
void embedding_backward(const Tensor& ids, const Tensor& dout, Range local_rows, Tensor dtable);

/// out[n] = x[n] + table[ids[n]], for position and token type embeddings. x, out (..., C), one id
/// (int32) for each row of x, table (P, C) complete on this rank; one dtype. out may alias x.
/// Throws and names an id that is not in [0, P); on a GPU, where ops read nothing back, its row is
/// NaN. embedding_backward computes the table's gradient.
void embedding_add(const Tensor& x, const Tensor& ids, const Tensor& table, Tensor out);

}  // namespace tessera
