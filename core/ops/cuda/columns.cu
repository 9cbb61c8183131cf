#include "core/cuda/rows.h"
#include "core/ops/columns.h"
#include "core/ops/device_ops.h"

namespace tessera::cuda {
namespace {

template <typename T>
__global__ void join_columns_kernel(const T* parts, int64_t rows, int64_t width, int64_t columns,
                                    float* out) {
  const int64_t n = row_of_thread();
  if (n >= rows) return;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    const int64_t rank = c / width;
    out[n * columns + c] = to_float(parts[(rank * rows + n) * width + c % width]);
  }
}

template <int N, typename T>
__global__ void copy_columns_kernel(const T* x, int64_t rows, int64_t width, int64_t columns,
                                    T* out, int64_t width_out) {
  const int64_t n = row_of_thread();
  if (n >= rows) return;
  for (int64_t c = threadIdx.x * N; c < columns; c += blockDim.x * N) {
    store(load<N>(x + n * width + c), out + n * width_out + c);
  }
}

}  // namespace

void join_columns(const Tensor& parts, Tensor out) {
  const int64_t rows = out.dim(0), columns = out.dim(1);
  dispatch_float(parts.dtype(), [&]<typename T>() {
    launch("join_columns", rows_shape(rows, columns), join_columns_kernel<T>, parts.data<T>(), rows,
           parts.dim(2), columns, out.data<float>());
  });
}

void copy_columns(const Tensor& x, int64_t first_x, Tensor out, int64_t first_out,
                  int64_t columns) {
  const int64_t rows = x.dim(0), width = x.dim(1), width_out = out.dim(1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    constexpr int kPack = kPackSize<T>;
    const T* from = x.data<T>() + first_x;
    T* to = out.data<T>() + first_out;
    const bool packs = takes_packs<kPack>(from) && takes_packs<kPack>(to) && width % kPack == 0 &&
                       width_out % kPack == 0 && columns % kPack == 0;
    launch("copy_columns", rows_shape(rows, packs ? columns / kPack : columns),
           packs ? copy_columns_kernel<kPack, T> : copy_columns_kernel<1, T>, from, rows, width,
           columns, to, width_out);
  });
}

}  // namespace tessera::cuda
