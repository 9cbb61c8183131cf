#include "launch/train/optimizer/weight_parts.h"

#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/columns.h"
#include "parallel/layers/partition.h"

namespace tessera {
namespace {

bool shards_columns(const Parameter& weight) {
  return weight.shard.dim == weight.global_shape.rank() - 1;
}

/// The rows or columns of part `part` of `parts`.
Range range_of_part(const Parameter& weight, int parts, int part) {
  const int dim = weight.shard.replicated() ? weight.global_shape.rank() - 2 : weight.shard.dim;
  const int64_t unit = weight.matrices->unit;
  const int64_t units = div_exact(weight.global_shape[dim], unit, weight.name, "its unit");
  const Range range = split_range(units, parts, part);
  return {range.begin * unit, range.end * unit};
}

/// Calls body(block, of_matrix, column, columns) with two matrices of the same rows for each part:
/// columns [column of block) of the part, and those of the matrix.
template <typename Body>
void for_each_part(const Parameter& weight, const MatrixPlace& place, const Tensor& matrix,
                   std::span<const Tensor> parts, Body&& body) {
  require_shape(matrix, {place.rows, place.columns}, "weight", weight.name.c_str());
  const int64_t height = weight.global_shape[-2];
  for (size_t i = 0; i < parts.size(); ++i) {
    const Range range = range_of_part(weight, static_cast<int>(parts.size()), static_cast<int>(i));
    if (range.empty()) continue;
    if (shards_columns(weight)) {
      const int64_t size = height * range.size();
      const Tensor block = parts[i].slice(place.index * size, (place.index + 1) * size);
      body(block.view({height, range.size()}), 0, matrix, range.begin, range.size());
      continue;
    }
    const int64_t units = range.size() / place.unit_height;
    const int64_t first_unit = range.begin / place.unit_height;
    const int64_t size = range.size() * place.columns;
    const int64_t width = place.unit_rows * place.columns;
    const Tensor block = parts[i].slice(place.index * size, (place.index + 1) * size);
    const Tensor rows =
        matrix.slice(first_unit * place.unit_rows, (first_unit + units) * place.unit_rows);
    body(block.view({units, place.unit_height * place.columns}), place.first_row * place.columns,
         rows.view({units, width}), 0, width);
  }
}

}  // namespace

std::vector<MatrixPlace> matrices_of(const Parameter& weight) {
  require(weight.matrices.has_value() && weight.global_shape.rank() >= 2,
          "{} is no weight of matrices", weight.name);
  const Shape& shape = weight.global_shape;
  const int64_t rows = shape[-2], columns = shape[-1];
  const int64_t count = shape.numel() / std::max<int64_t>(1, rows * columns);
  std::vector<int64_t> unit_rows = weight.matrices->unit_rows;
  if (unit_rows.empty()) unit_rows = {1};
  const int64_t height = std::accumulate(unit_rows.begin(), unit_rows.end(), int64_t{0});
  require(unit_rows.size() == 1 || (height == weight.matrices->unit && !shards_columns(weight)),
          "{}: the matrices of a unit of {} rows have {}", weight.name, weight.matrices->unit,
          height);
  const int64_t units = div_exact(rows, height, weight.name, "its unit");
  std::vector<MatrixPlace> places;
  for (int64_t index = 0; index < count; ++index) {
    int64_t first = 0;
    for (const int64_t part : unit_rows) {
      places.push_back({index, first, part, height, units * part, columns});
      first += part;
    }
  }
  return places;
}

int parts_of(const Parameter& weight, int tensor_ranks) {
  return weight.shard.replicated() ? 1 : tensor_ranks;
}

void copy_to_matrix(const Parameter& weight, const MatrixPlace& place,
                    std::span<const Tensor> parts, Tensor matrix) {
  for_each_part(weight, place, matrix, parts,
                [](const Tensor& part, int64_t from, const Tensor& whole, int64_t to,
                   int64_t columns) { copy_columns(part, from, whole, to, columns); });
}

void copy_from_matrix(const Parameter& weight, const MatrixPlace& place, const Tensor& matrix,
                      std::span<const Tensor> parts) {
  for_each_part(weight, place, matrix, parts,
                [](const Tensor& part, int64_t to, const Tensor& whole, int64_t from,
                   int64_t columns) { copy_columns(whole, from, part, to, columns); });
}

}  // namespace tessera
