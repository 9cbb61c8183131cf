#pragma once

#include <cstdint>
#include <vector>

#include "core/checked.h"
#include "core/tensor.h"

namespace tessera {

/// What a context rank knows of a batch whose N rows are cut over the context ranks: each has the
/// same documents, and ⌊N / ranks⌋ or ⌈N / ranks⌉ rows of them, in order. Only attention sees the
/// rows of other ranks. All tensors are int32 but `hidden`.
struct ContextCut {
  int ranks = 1;     ///< 1: the batch is whole, and nothing below is defined
  int rank = 0;      ///< this one
  int64_t rows = 0;  ///< N

  /// (N): row n of the batch is row gathered[n] of an all-gather, in which each rank has share()
  /// rows, of which the last may be padding.
  Tensor gathered = {};
  Tensor documents = {};      ///< (S + 1), cumulative lengths of the documents' N rows
  Tensor own_documents = {};  ///< (S + 1), the same of this rank's rows
  Tensor padded_rows = {};    ///< (N), as in PaddedRows
  Tensor hidden = {};         ///< (N) uint8, as AttentionMask::hidden_keys; undefined: none is
  /// The documents whose first rows this rank has, in order. So it counts them, and computes what
  /// heads make of them.
  Tensor counted = {};

  /// The rows of other ranks whose keys this rank's queries see in layers with a window, and the
  /// rows that it has for others: what such layers exchange instead of all rows.
  struct Halo {
    Tensor sent = {};      ///< this rank's rows for each other rank in turn
    Tensor received = {};  ///< rows of the batch from each other rank in turn
    Tensor own = {};       ///< (n): this rank's rows of the batch
    std::vector<int64_t> sends = {}, receives = {};  ///< rows to and from each rank

    bool defined() const { return own.defined(); }
  };
  /// Undefined if no layer has a window, or windows need so many rows that a gather of all takes no
  /// more memory.
  Halo halo = {};

  bool defined() const { return ranks > 1; }
  int64_t share() const { return ceil_div(rows, ranks); }
  int64_t num_documents() const { return documents.numel() - 1; }
};

}  // namespace tessera
