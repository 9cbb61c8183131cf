#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// Whether a matrix is stored by rows, or by columns like a transposed tensor.
enum class MatrixLayout : uint8_t { rows, columns };

/// A tensor viewed as a (rows, cols) matrix.
struct Matrix {
  Tensor tensor;
  int64_t rows;
  int64_t cols;
  MatrixLayout layout;
};

}  // namespace tessera
