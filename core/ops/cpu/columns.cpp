#include "core/ops/columns.h"

#include <cstring>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {

void join_columns(const Tensor& parts, Tensor out) {
  const int64_t ranks = parts.dim(0), rows = parts.dim(1), width = parts.dim(2);
  const int64_t columns = out.dim(1);
  float* to = out.data<float>();
  dispatch_float(parts.dtype(), [&]<typename T>() {
    const T* from = parts.data<T>();
    parallel_for(rows, grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const T* part = from + (rank * rows + n) * width;
          float* joined = to + n * columns + rank * width;
          const int64_t count = std::min(width, columns - rank * width);
          for (int64_t c = 0; c < count; ++c) joined[c] = to_float(part[c]);
        }
      }
    });
  });
}

void copy_columns(const Tensor& x, int64_t first_x, Tensor out, int64_t first_out,
                  int64_t columns) {
  const int64_t width = x.dim(1), width_out = out.dim(1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* from = x.data<T>() + first_x;
    T* to = out.data<T>() + first_out;
    parallel_for(x.dim(0), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        std::memcpy(to + n * width_out, from + n * width, static_cast<size_t>(columns) * sizeof(T));
      }
    });
  });
}

}  // namespace tessera::cpu
