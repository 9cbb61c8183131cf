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
/// the number of threads; on a GPU, the tokens of a row beyond its first 64 are summed in pieces of
/// 64, whose sums are added in an order that depends on their number alone. dout fp32 or bf16,
/// dtable fp32.
void embedding_backward(const Tensor& ids, const Tensor& dout, Range held, Tensor dtable);

/// out[n] = x[n] + table[ids[n]], for an embedding beside the word's: of positions, of token types.
/// x, out (..., C), ids as many int32 as x has rows, table (P, C) whole; one dtype. out may alias
/// x. Throws, naming it, if an id is not in [0, P); on a GPU, where no op reads back, such an id's
/// row is NaN. The table's gradient is embedding_backward's.
void embedding_add(const Tensor& x, const Tensor& ids, const Tensor& table, Tensor out);

}  // namespace tessera
