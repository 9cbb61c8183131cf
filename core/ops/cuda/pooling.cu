#include "core/cuda/rows.h"
#include "core/ops/device_ops.h"
#include "core/ops/pooling.h"

// A block per document or vector. Consecutive threads read consecutive columns, and each output is
// summed by one thread, or by one block in a fixed order.
namespace tessera::cuda {
namespace {

__device__ int64_t clamped(int64_t row, int64_t rows) {
  return row < 0 ? 0 : row < rows ? row : rows;
}

/// Of the document of this block.
__device__ float one_over_length(const int32_t* documents) {
  return 1.0f / static_cast<float>(documents[blockIdx.x + 1] - documents[blockIdx.x]);
}

template <typename T, typename Out>
__global__ void pool_mean_kernel(const T* x, const int32_t* documents, const int32_t* whole,
                                 int64_t columns, Range local_rows, Out* out) {
  const int64_t first = documents[blockIdx.x], last = documents[blockIdx.x + 1];
  const int64_t begin = clamped(first - local_rows.begin, local_rows.size());
  const int64_t end = clamped(last - local_rows.begin, local_rows.size());
  const float factor = one_over_length(whole);
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    float sum = 0.0f;
    for (int64_t row = begin; row < end; ++row) sum += to_float(x[row * columns + c]);
    out[blockIdx.x * columns + c] = from_float<Out>(factor * sum);
  }
}

template <typename T, typename Out>
__global__ void pool_mean_backward_kernel(const Out* dout, const int32_t* documents,
                                          const int32_t* whole, int64_t columns, Range local_rows,
                                          T* dx) {
  const int64_t first = documents[blockIdx.x], last = documents[blockIdx.x + 1];
  const int64_t begin = clamped(first - local_rows.begin, local_rows.size());
  const int64_t end = clamped(last - local_rows.begin, local_rows.size());
  const float factor = one_over_length(whole);
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    const float add = factor * to_float(dout[blockIdx.x * columns + c]);
    for (int64_t row = begin; row < end; ++row) {
      T& sum = dx[row * columns + c];
      sum = from_float<T>(to_float(sum) + add);
    }
  }
}

template <typename T>
__global__ void normalize_rows_kernel(const T* x, int64_t columns, float length, float* y,
                                      float* inverse_norm) {
  __shared__ float inverse;
  const int64_t begin = blockIdx.x * columns;
  double squares = 0.0;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    const auto value = static_cast<double>(to_float(x[begin + c]));
    squares += value * value;
  }
  squares = block_sum(squares);
  if (threadIdx.x == 0) {
    const auto norm = static_cast<float>(sqrt(squares));
    inverse = 1.0f / (norm > kSmallestNorm ? norm : kSmallestNorm);
    inverse_norm[blockIdx.x] = inverse;
  }
  __syncthreads();
  const float factor = length * inverse;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    y[begin + c] = factor * to_float(x[begin + c]);
  }
}

template <typename T>
__global__ void normalize_rows_backward_kernel(const float* dy, const float* y, int64_t columns,
                                               float length, const float* inverse_norm, T* dx) {
  __shared__ float along;
  const int64_t begin = blockIdx.x * columns;
  double sum = 0.0;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    sum += static_cast<double>(y[begin + c]) * static_cast<double>(dy[begin + c]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) along = static_cast<float>(sum) / (length * length);
  __syncthreads();
  const float factor = length * inverse_norm[blockIdx.x];
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    dx[begin + c] = from_float<T>(factor * (dy[begin + c] - along * y[begin + c]));
  }
}

}  // namespace

void pool_mean(const Tensor& x, const Tensor& documents, Tensor out, int64_t first,
               const Tensor& whole) {
  const int64_t columns = x.dim(-1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    dispatch_float(out.dtype(), [&]<typename Out>() {
      launch("pool_mean", block_per_row(out.dim(0), columns), pool_mean_kernel<T, Out>, x.data<T>(),
             documents.data<int32_t>(), whole.data<int32_t>(), columns,
             Range{first, first + rows_of(x)}, out.data<Out>());
    });
  });
}

void pool_mean_backward(const Tensor& dout, const Tensor& documents, Tensor dx, int64_t first,
                        const Tensor& whole) {
  const int64_t columns = dx.dim(-1);
  dispatch_float(dx.dtype(), [&]<typename T>() {
    dispatch_float(dout.dtype(), [&]<typename Out>() {
      launch("pool_mean_backward", block_per_row(dout.dim(0), columns),
             pool_mean_backward_kernel<T, Out>, dout.data<Out>(), documents.data<int32_t>(),
             whole.data<int32_t>(), columns, Range{first, first + rows_of(dx)}, dx.data<T>());
    });
  });
}

void normalize_rows(const Tensor& x, float length, Tensor y, Tensor inverse_norm) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    launch("normalize_rows", block_per_row(x.dim(0), x.dim(1)), normalize_rows_kernel<T>,
           x.data<T>(), x.dim(1), length, y.data<float>(), inverse_norm.data<float>());
  });
}

void normalize_rows_backward(const Tensor& dy, const Tensor& y, float length,
                             const Tensor& inverse_norm, Tensor dx) {
  dispatch_float(dx.dtype(), [&]<typename T>() {
    launch("normalize_rows_backward", block_per_row(y.dim(0), y.dim(1)),
           normalize_rows_backward_kernel<T>, dy.data<float>(), y.data<float>(), y.dim(1), length,
           inverse_norm.data<float>(), dx.data<T>());
  });
}

}  // namespace tessera::cuda
