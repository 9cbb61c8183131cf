#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/parameters/parameter.h"

namespace tessera {

/// A matrix within the weight of a linear layer; see WeightMatrices.
struct MatrixPlace {
  int64_t index = 0;        ///< in the dims before the last two
  int64_t first_row = 0;    ///< within a unit
  int64_t unit_rows = 1;    ///< of a unit
  int64_t unit_height = 1;  ///< rows of a unit, of all its matrices
  int64_t rows = 0, columns = 0;
};

/// The matrices of a weight, with global sizes.
std::vector<MatrixPlace> matrices_of(const Parameter& weight);

/// How many parts of a weight together are the whole: one per tensor rank, or one if it is
/// replicated.
int parts_of(const Parameter& weight, int tensor_ranks);

/// Copies a matrix (rows, columns) of a weight from the parts of all tensor ranks, or back to them.
/// A part is 1-D and starts with the rank's shard in its order; it may be longer. Throws unless the
/// shard of the weight is that of a rank of this many.
void copy_to_matrix(const Parameter& weight, const MatrixPlace& place,
                    std::span<const Tensor> parts, Tensor matrix);
void copy_from_matrix(const Parameter& weight, const MatrixPlace& place, const Tensor& matrix,
                      std::span<const Tensor> parts);

}  // namespace tessera
