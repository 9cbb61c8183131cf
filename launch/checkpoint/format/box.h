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

/// A box of a global tensor: the index of its first element and its extent in every dim. A tensor
/// without dims has one box with one element.
struct Box {
  Shape offset;
  Shape shape;

  Range range(int dim) const { return {offset[dim], offset[dim] + shape[dim]}; }
  bool operator==(const Box&) const = default;
};

/// A shape as a JSON list.
inline std::vector<int64_t> to_list(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// "[0:4, 16:32]"
std::string to_string(const Box& box);

/// The box of a rank with this shard. Throws if the shard is not within the shape.
Box box_of(const Shard& shard, const Shape& global_shape);

/// The fewest boxes whose elements, one box after the other, are the elements `run` of `box`,
/// counted row-major within it. Empty if the run is empty.
std::vector<Box> boxes_of_run(const Box& box, Range run);

/// Whether a box, which may be empty, is within a tensor of this shape.
bool is_within(const Box& box, const Shape& global_shape);

/// The intersection of two boxes of one tensor; nullopt if it is empty.
std::optional<Box> intersect(const Box& a, const Box& b);

/// Number of elements of an untrusted shape; nullopt if it overflows 63 bits.
std::optional<int64_t> checked_numel(const Shape& shape);

/// Bytes of such a tensor; nullopt if they overflow 63 bits.
std::optional<int64_t> checked_bytes(const Shape& shape, DType dtype);

/// Throws, naming `tensor`, unless the boxes tile a tensor of this shape: each is non-empty and
/// within it, no two overlap, and together they cover every element.
void require_tiling(const std::vector<Box>& boxes, const Shape& global_shape,
                    const std::string& tensor);

/// Copies `overlap`, which is within both boxes, from a row-major array of `from` to one of `to`:
/// calls `copy_run(from_index, to_index, count)`, in elements, for ranges that are contiguous in
/// both.
template <typename CopyRun>
void for_each_run(const Box& from, const Box& to, const Box& overlap, CopyRun&& copy_run) {
  // Dims from `inner` on form one contiguous range: all but the first are whole in both arrays.
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
