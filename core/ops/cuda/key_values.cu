#include "core/cuda/rows.h"
#include "core/ops/device_ops.h"
#include "core/ops/key_values.h"

namespace tessera::cuda {
namespace {

/// A cache (B, heads, capacity, units), to which T positions from `first` on are written.
struct CacheShape {
  int64_t positions, first, capacity;
  int heads, units;
  int row, first_key;  ///< units of a position of qkv, and the first of its keys
};

/// A row is one position of qkv, with the keys and values of all heads in order.
template <typename Unit>
__global__ void store_kernel(const Unit* qkv, int64_t rows, CacheShape shape, Unit* keys,
                             Unit* values) {
  const int64_t row = row_of_thread();
  if (row >= rows) return;
  const int64_t b = row / shape.positions, t = row % shape.positions;
  const int width = shape.heads * shape.units;
  const Unit* from = qkv + row * shape.row + shape.first_key;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * width; i += static_cast<int>(blockDim.x)) {
    const int within = i % width;
    const int64_t head = b * shape.heads + within / shape.units;
    const int64_t to = (head * shape.capacity + shape.first + t) * shape.units;
    Unit* out = i < width ? keys : values;
    out[to + within % shape.units] = from[i];
  }
}

}  // namespace

void store_key_values(const Tensor& qkv, int64_t first, Tensor keys, Tensor values) {
  const int64_t rows = qkv.dim(0) * qkv.dim(1);
  const int64_t heads = keys.dim(1);
  const auto bytes = qkv.dim(3) * static_cast<int64_t>(size_of(qkv.dtype()));
  dispatch_unit(bytes, {&qkv, &keys, &values}, [&]<typename Unit>() {
    const int64_t units = bytes / static_cast<int64_t>(sizeof(Unit));
    const int64_t row = qkv.dim(2) * units, width = 2 * heads * units;
    const CacheShape shape{qkv.dim(1),
                           first,
                           keys.dim(2),
                           narrow<int>(heads),
                           narrow<int>(units),
                           narrow<int>(row),
                           narrow<int>(row - width)};
    launch("store_key_values", rows_shape(rows, width), store_kernel<Unit>,
           static_cast<const Unit*>(qkv.raw()), rows, shape, static_cast<Unit*>(keys.raw()),
           static_cast<Unit*>(values.raw()));
  });
}

}  // namespace tessera::cuda
