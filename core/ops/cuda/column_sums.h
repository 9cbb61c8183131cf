#pragma once

#include <algorithm>
#include <cstdint>

#include "core/checked.h"

namespace tessera::cuda {

/// Sums over rows in two stages, without atomics: each piece of the rows writes a partial sum of
/// each column to the workspace, then add_pieces() adds these up. What a piece is follows from the
/// shape alone, so the sums are the same bits each time and on each GPU.
struct RowPieces {
  /// At most `at_most` pieces, of `at_least` rows or more but for the last.
  RowPieces(int64_t rows_, int64_t at_most, int64_t at_least)
      : rows(rows_), per_piece(std::max(ceil_div(rows_, at_most), at_least)) {}

  int64_t rows;
  int64_t per_piece;

  int64_t count() const { return ceil_div(rows, per_piece); }
};

/// first[c] += Σ_pieces partials[piece][0][c], and where there is a `second` [piece][1][c] goes to
/// it. partials (pieces, sums, C) with 1 or 2 sums.
void add_pieces(const float* partials, int64_t pieces, int64_t sums, int64_t columns, float* first,
                float* second);

}  // namespace tessera::cuda
