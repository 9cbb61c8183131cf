#pragma once

#include <algorithm>
#include <cstdint>

#include "core/accumulate.h"
#include "core/checked.h"

namespace tessera::cuda {

/// Sums over rows in two stages, without atomics: each piece of the rows writes a partial sum of
/// each column to the workspace, then add_pieces() adds these. The pieces depend on the shape,
/// so the bits are the same in every run and on every GPU. In layer_norm_backward they also depend
/// on multiprocessors(): the bits are the same on every GPU with as many.
struct RowPieces {
  /// At most `at_most` pieces, of at least `at_least` rows except for the last.
  RowPieces(int64_t rows_, int64_t at_most, int64_t at_least)
      : rows(rows_), per_piece(std::max(ceil_div(rows_, at_most), at_least)) {}

  int64_t rows;
  int64_t per_piece;

  int64_t count() const { return ceil_div(rows, per_piece); }
};

/// first[c] += Σ_pieces partials[piece][0][c], and second[c] += Σ_pieces partials[piece][1][c] if
/// there is a `second`; or overwrites both with these sums. partials (pieces, sums, C) with 1 or 2
/// sums.
void add_pieces(const float* partials, int64_t pieces, int64_t sums, int64_t columns,
                Accumulate accumulate, float* first, float* second);

}  // namespace tessera::cuda
