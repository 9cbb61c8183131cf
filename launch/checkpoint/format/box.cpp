#include "launch/checkpoint/format/box.h"

#include <algorithm>
#include <set>

#include "core/checked.h"
#include "core/error.h"

namespace tessera {
namespace {

// Adds the boxes of a range within `part`, which spans all dims from `dim` on and has extent 1 in
// each dim before.
void add_boxes_of_run(const Box& part, int dim, Range run, std::vector<Box>& boxes) {
  if (run.empty()) return;
  if (run.size() == part.shape.numel()) {
    boxes.push_back(part);
    return;
  }
  const auto rows = [&](int64_t begin, int64_t end) {
    Box some = part;
    some.offset.set(dim, part.offset[dim] + begin);
    some.shape.set(dim, end - begin);
    return some;
  };
  const int64_t row_size = rows(0, 1).shape.numel();
  const auto within_row = [&](int64_t row) {
    const Range common = intersect(run, {row * row_size, (row + 1) * row_size});
    const int64_t begin = row * row_size;
    add_boxes_of_run(rows(row, row + 1), dim + 1, {common.begin - begin, common.end - begin},
                     boxes);
  };
  const int64_t first = ceil_div(run.begin, row_size), last = run.end / row_size;
  if (first > last) return within_row(last);
  if (first * row_size > run.begin) within_row(first - 1);
  if (last > first) boxes.push_back(rows(first, last));
  if (last * row_size < run.end) within_row(last);
}

}  // namespace

std::string to_string(const Box& box) {
  std::string text = "[";
  for (int dim = 0; dim < box.shape.rank(); ++dim) {
    text += fmt::format("{}{}:{}", dim == 0 ? "" : ", ", box.range(dim).begin, box.range(dim).end);
  }
  return text + "]";
}

Box box_of(const Shard& shard, const Shape& global_shape) {
  Box box;
  for (int dim = 0; dim < global_shape.rank(); ++dim) box.offset.push_back(0);
  box.shape = global_shape;
  if (shard.replicated()) return box;
  const Range& range = shard.range;
  require(0 <= shard.dim && shard.dim < global_shape.rank() && 0 <= range.begin &&
              range.begin <= range.end && range.end <= global_shape[shard.dim],
          "a tensor of shape {} has no range [{}, {}) in dim {}", to_string(global_shape),
          range.begin, range.end, shard.dim);
  box.offset.set(shard.dim, range.begin);
  box.shape.set(shard.dim, range.size());
  return box;
}

std::vector<Box> boxes_of_run(const Box& box, Range run) {
  require(0 <= run.begin && run.end <= box.shape.numel(),
          "the box {} has no elements [{}, {}): it has {}", to_string(box), run.begin, run.end,
          box.shape.numel());
  std::vector<Box> boxes;
  add_boxes_of_run(box, 0, run, boxes);
  return boxes;
}

bool is_within(const Box& box, const Shape& global_shape) {
  const int rank = global_shape.rank();
  bool inside = box.offset.rank() == rank && box.shape.rank() == rank;
  for (int dim = 0; inside && dim < rank; ++dim) {
    inside = box.shape[dim] >= 0 && box.offset[dim] >= 0 && box.shape[dim] <= global_shape[dim] &&
             box.offset[dim] <= global_shape[dim] - box.shape[dim];
  }
  return inside;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box common;
  for (int dim = 0; dim < a.shape.rank(); ++dim) {
    const Range range = intersect(a.range(dim), b.range(dim));
    if (range.empty()) return std::nullopt;
    common.offset.push_back(range.begin);
    common.shape.push_back(range.size());
  }
  return common;
}

std::optional<int64_t> checked_numel(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  }
  return product;
}

std::optional<int64_t> checked_bytes(const Shape& shape, DType dtype) {
  const auto numel = checked_numel(shape);
  int64_t bytes = 0;
  if (!numel || __builtin_mul_overflow(*numel, static_cast<int64_t>(size_of(dtype)), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

namespace {

// Overlapping boxes also overlap along this dim, so only neighbors along it are compared. Usual
// shards cut one dim, so the check is linear.
int dim_with_most_cuts(const std::vector<Box>& boxes, int rank) {
  int best = 0;
  size_t most = 0;
  for (int dim = 0; dim < rank; ++dim) {
    std::set<int64_t> cuts;
    for (const Box& box : boxes) cuts.insert(box.offset[dim]);
    if (cuts.size() > most) {
      most = cuts.size();
      best = dim;
    }
  }
  return best;
}

// Slices of real layouts need a few comparisons each; a hostile file's could need their square.
constexpr int64_t kMostPairs = int64_t{1} << 24;

void require_disjoint(std::vector<Box> boxes, int rank, const std::string& tensor) {
  if (rank == 0) return;
  int64_t pairs = 0;
  const int dim = dim_with_most_cuts(boxes, rank);
  std::sort(boxes.begin(), boxes.end(),
            [&](const Box& a, const Box& b) { return a.offset[dim] < b.offset[dim]; });
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      if (boxes[j].offset[dim] >= boxes[i].range(dim).end) break;
      require(++pairs <= kMostPairs, "{}: its {} slices lie too irregularly to be checked", tensor,
              boxes.size());
      require(!intersect(boxes[i], boxes[j]), "{}: the slices {} and {} overlap", tensor,
              to_string(boxes[i]), to_string(boxes[j]));
    }
  }
}

}  // namespace

void require_tiling(const std::vector<Box>& boxes, const Shape& global_shape,
                    const std::string& tensor) {
  const auto numel = checked_numel(global_shape);
  require(numel.has_value(), "{}: the shape {} has more elements than fit into 63 bits", tensor,
          to_string(global_shape));
  int64_t volume = 0;
  for (const Box& box : boxes) {
    const bool has_elements =
        std::all_of(box.shape.begin(), box.shape.end(), [](int64_t extent) { return extent > 0; });
    require(has_elements && is_within(box, global_shape),
            "{}: a slice at offset {} of shape {} is not a piece of the shape {}", tensor,
            to_string(box.offset), to_string(box.shape), to_string(global_shape));
    const int64_t elements = box.shape.numel();
    require(elements <= *numel - volume,
            "{}: its slices hold more than the {} elements of the shape {}", tensor, *numel,
            to_string(global_shape));
    volume += elements;
  }
  require_disjoint(boxes, global_shape.rank(), tensor);
  require(volume == *numel, "{}: its slices hold {} of the {} elements of the shape {}", tensor,
          volume, *numel, to_string(global_shape));
}

}  // namespace tessera
