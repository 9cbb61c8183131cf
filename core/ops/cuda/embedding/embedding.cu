#include "core/cuda/rows.h"
#include "core/ops/device_ops.h"
#include "core/ops/embedding.h"

namespace tessera::cuda {
namespace {

/// out[n] = table[ids[n] − local_rows.begin], or zeros. A row is `units` units.
template <typename Unit>
__global__ void lookup_kernel(const int32_t* ids, int64_t count, const Unit* table,
                              Range local_rows, int64_t units, Unit* out) {
  const int64_t n = row_of_thread();
  if (n >= count) return;
  const int64_t id = ids[n];
  Unit* to = out + n * units;
  if (local_rows.contains(id)) {
    const Unit* from = table + (id - local_rows.begin) * units;
    for (int64_t c = threadIdx.x; c < units; c += blockDim.x) to[c] = from[c];
  } else {
    for (int64_t c = threadIdx.x; c < units; c += blockDim.x) to[c] = Unit{};
  }
}

/// out[n] = x[n] + table[ids[n]], or NaNs if the table has no such row.
template <typename T, int N>
__global__ void add_lookup_kernel(const T* x, const int32_t* ids, int64_t count, const T* table,
                                  Range rows, int64_t columns, T* out) {
  const int64_t n = row_of_thread();
  if (n >= count) return;
  const int64_t id = ids[n];
  const bool there = rows.contains(id);
  for (int64_t c = threadIdx.x * N; c < columns; c += blockDim.x * N) {
    Floats<N> sum = load_floats<N>(x + n * columns + c), add{};
    if (there) add = load_floats<N>(table + id * columns + c);
    for (int i = 0; i < N; ++i) {
      sum.at[i] = there ? sum.at[i] + add.at[i] : __uint_as_float(0x7fc00000u);
    }
    store_floats(sum, out + n * columns + c);
  }
}

}  // namespace

void embedding_forward(const Tensor& ids, const Tensor& table, Range local_rows, Tensor out) {
  const int64_t count = ids.numel();
  const auto bytes = out.dim(-1) * static_cast<int64_t>(size_of(out.dtype()));
  dispatch_unit(bytes, {&table, &out}, [&]<typename Unit>() {
    const int64_t units = bytes / static_cast<int64_t>(sizeof(Unit));
    launch("embedding_forward", rows_shape(count, units), lookup_kernel<Unit>, ids.data<int32_t>(),
           count, static_cast<const Unit*>(table.raw()), local_rows, units,
           static_cast<Unit*>(out.raw()));
  });
}

void embedding_add(const Tensor& x, const Tensor& ids, const Tensor& table, Tensor out) {
  const int64_t count = ids.numel(), columns = x.dim(-1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    dispatch_pack<T>(columns, {&x, &table, &out}, [&]<int N>() {
      launch("embedding_add", rows_shape(count, columns / N), add_lookup_kernel<T, N>, x.data<T>(),
             ids.data<int32_t>(), count, table.data<T>(), Range{0, table.dim(0)}, columns,
             out.data<T>());
    });
  });
}

}  // namespace tessera::cuda
