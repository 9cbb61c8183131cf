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

}  // namespace

void join_columns(const Tensor& parts, Tensor out) {
  const int64_t rows = out.dim(0), columns = out.dim(1);
  dispatch_float(parts.dtype(), [&]<typename T>() {
    launch("join_columns", rows_shape(rows, columns), join_columns_kernel<T>, parts.data<T>(), rows,
           parts.dim(2), columns, out.data<float>());
  });
}

}  // namespace tessera::cuda
