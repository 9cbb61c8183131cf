#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// How a matrix lies in memory: row after row, or column after column (as a transposed tensor
/// does).
enum class Layout : uint8_t { rows, columns };

/// A tensor read as a matrix of rows × cols.
struct Matrix {
  Tensor tensor;
  int64_t rows;
  int64_t cols;
  Layout layout;
};

}  // namespace tessera
