#include "launch/huggingface/transpose.h"

#include <algorithm>

namespace tessera {

void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  constexpr int64_t kTile = 32;  // two tiles fit into the L1 cache
  for (int64_t row = 0; row < rows; row += kTile) {
    const int64_t last_row = std::min(rows, row + kTile);
    for (int64_t column = 0; column < columns; column += kTile) {
      const int64_t last_column = std::min(columns, column + kTile);
      for (int64_t i = row; i < last_row; ++i) {
        for (int64_t j = column; j < last_column; ++j) to[j * rows + i] = from[i * columns + j];
      }
    }
  }
}

}  // namespace tessera
