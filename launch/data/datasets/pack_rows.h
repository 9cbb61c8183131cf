#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// Which pieces are in which row: row r has pieces[first[r]] up to pieces[first[r + 1] − 1].
struct PackedRows {
  std::vector<int64_t> pieces;
  std::vector<int64_t> first{0};  ///< one entry more than there are rows

  int64_t num_rows() const { return static_cast<int64_t>(first.size()) - 1; }
  std::span<const int64_t> row(int64_t r) const;
};

/// Packs pieces of these lengths into rows of `capacity` by best fit decreasing: longest first,
/// each into the fullest row with enough space. Takes O(n log capacity). Pieces within a row, and
/// the first pieces of rows, are in ascending order. Throws if a piece is longer than a row or
/// shorter than 1.
PackedRows pack_rows(std::span<const int32_t> lengths, int64_t capacity);

}  // namespace tessera
