#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

/// Which pieces lie in which row: row r has pieces[first[r]] up to pieces[first[r + 1] − 1].
struct PackedRows {
  std::vector<int64_t> pieces;
  std::vector<int64_t> first{0};  ///< one more than there are rows

  int64_t num_rows() const { return static_cast<int64_t>(first.size()) - 1; }
  std::span<const int64_t> row(int64_t r) const;
};

/// Puts pieces of these lengths into rows of `capacity`, each into the fullest row that has room
/// for it, the longest first (best fit decreasing), in time n log capacity. The pieces of a row,
/// and the first pieces of the rows, ascend. Throws if a piece is longer than a row or shorter
/// than 1.
PackedRows pack_rows(std::span<const int32_t> lengths, int64_t capacity);

}  // namespace tessera
