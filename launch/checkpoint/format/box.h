#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/parameters/parameter.h"
#include "core/shape.h"

namespace tessera {

/// A box of a global tensor: its first element's index and its extent in every dim. A tensor
/// without dims has one box, of one element.
struct Box {
  Shape offset;
  Shape shape;

  Range range(int dim) const { return {offset[dim], offset[dim] + shape[dim]}; }
  bool operator==(const Box&) const = default;
};

/// A shape as JSON holds it.
inline std::vector<int64_t> to_list(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// "[0:4, 16:32]"
std::string to_string(const Box& box);

/// The box that a rank with this shard holds. Throws if the shard is not within the shape.
Box box_of(const Shard& shard, const Shape& global_shape);

/// The boxes whose elements, one box after the other, are the elements `run` of `box`, counted
/// row-major within it; the fewest that are. None if the run is empty.
std::vector<Box> boxes_of_run(const Box& box, Range run);

/// Whether a box, which may be empty, is within a tensor of this shape.
bool is_within(const Box& box, const Shape& global_shape);

/// What two boxes of one tensor have in common; nothing if that is empty.
std::optional<Box> intersect(const Box& a, const Box& b);

/// Elements of a shape that may come from a file; nothing if they overflow 63 bits.
std::optional<int64_t> checked_numel(const Shape& shape);

/// Bytes of such a tensor; nothing if they overflow 63 bits.
std::optional<int64_t> checked_bytes(const Shape& shape, DType dtype);

/// Throws, naming `tensor`, unless the boxes tile a tensor of this shape: each is within it and has
/// elements, no two overlap, and together they hold every element.
void require_tiling(const std::vector<Box>& boxes, const Shape& global_shape,
                    const std::string& tensor);

/// Copies `overlap`, which is within both boxes, from a row-major array that holds `from` to one
/// that holds `to`: calls `copy_run(from_index, to_index, count)`, in elements, for runs that are
/// contiguous in both.
template <typename CopyRun>
void for_each_run(const Box& from, const Box& to, const Box& overlap, CopyRun&& copy_run) {
  // Dims from `inner` on form one run: all of them but the first are whole in both arrays.
  int inner = overlap.shape.rank();
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= overlap.shape[inner];
    const bool whole =
        overlap.shape[inner] == from.shape[inner] && overlap.shape[inner] == to.shape[inner];
    if (!whole) break;
  }
  int64_t runs = 1;
  for (int dim = 0; dim < inner; ++dim) runs *= overlap.shape[dim];
  for (int64_t i = 0; i < runs; ++i) {
    int64_t rest = i;
    int64_t from_index = 0, to_index = 0;
    int64_t from_stride = 1, to_stride = 1;
    for (int dim = overlap.shape.rank() - 1; dim >= 0; --dim) {
      int64_t at = overlap.offset[dim];
      if (dim < inner) {
        at += rest % overlap.shape[dim];
        rest /= overlap.shape[dim];
      }
      from_index += (at - from.offset[dim]) * from_stride;
      to_index += (at - to.offset[dim]) * to_stride;
      from_stride *= from.shape[dim];
      to_stride *= to.shape[dim];
    }
    copy_run(from_index, to_index, run);
  }
}

}  // namespace tessera
