#pragma once

#include <algorithm>
#include <cstdint>

#include "core/checked.h"
#include "core/range.h"
#include "core/tensor.h"

namespace tessera {

/// How sequence parallelism shards the N rows of a micro-batch's activations over the tensor ranks,
/// outside the tensor regions (Korthikanti et al., "Reducing Activation Recomputation in Large
/// Transformer Models", 2022). Rank r has the local rows [r × chunk, (r + 1) × chunk) with chunk =
/// ⌈N / parts⌉; the last ranks may have fewer, or none. With one part, every rank has all rows.
///
///     5 rows, 4 parts: {0, 1} {2, 3} {4} {}
struct SequenceShard {
  int parts = 1;
  int index = 0;     ///< this rank's part
  int64_t rows = 0;  ///< N

  bool split() const { return parts > 1; }
  int64_t chunk() const { return ceil_div(rows, parts); }
  Range local() const {
    return {std::min(rows, index * chunk()), std::min(rows, (index + 1) * chunk())};
  }

  /// This sharding of a micro-batch with N = `count`.
  SequenceShard of(int64_t count) const { return {parts, index, count}; }

  /// This rank's local rows of `whole` (N, ...), as a view.
  Tensor local_of(const Tensor& whole) const {
    return split() ? whole.slice(local().begin, local().end) : whole;
  }

  /// The shape (..., rows, C) with the number of local rows, or of all rows.
  Shape local_shape_of(const Shape& whole) const { return with_rows(whole, local().size()); }
  Shape global_shape_of(const Shape& local) const { return with_rows(local, rows); }

 private:
  Shape with_rows(Shape shape, int64_t count) const {
    if (split()) shape.set(-2, count);
    return shape;
  }
};

}  // namespace tessera
