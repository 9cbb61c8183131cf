#include "core/shape.h"

#include <fmt/ranges.h>

#include "core/error.h"

namespace tessera {

Shape::Shape(std::initializer_list<int64_t> dims) {
  for (const int64_t extent : dims) push_back(extent);
}

void Shape::push_back(int64_t extent) {
  require(rank_ < kMaxDims, "a shape has at most {} dims", kMaxDims);
  require(extent >= 0, "a shape's extent cannot be negative, but is {}", extent);
  dims_[static_cast<size_t>(rank_++)] = extent;
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (const int64_t extent : *this) product *= extent;
  return product;
}

std::string to_string(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace tessera
