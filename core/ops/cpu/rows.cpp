#include "core/ops/rows.h"

#include <algorithm>
#include <cstring>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {

void gather_rows(const Tensor& x, const Tensor& rows, Tensor out, int64_t first) {
  const int64_t columns = x.dim(-1);
  const Range local_rows = {first, first + rows_of(x)};
  const size_t bytes = static_cast<size_t>(columns) * size_of(x.dtype());
  const int32_t* row = rows.data<int32_t>();
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  parallel_for(rows.numel(), grain_for(columns), [=](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      std::byte* target = to + static_cast<size_t>(m) * bytes;
      if (local_rows.contains(row[m])) {
        std::memcpy(target, from + static_cast<size_t>(row[m] - first) * bytes, bytes);
      } else {
        std::memset(target, 0, bytes);
      }
    }
  });
}

// The rows are distinct, so no two threads write the same element.
void scatter_add_rows(const Tensor& dout, const Tensor& rows, Tensor dx, int64_t first) {
  const int64_t columns = dx.dim(-1);
  const Range local_rows = {first, first + rows_of(dx)};
  const int32_t* row = rows.data<int32_t>();
  dispatch_float(dx.dtype(), [&]<typename T>() {
    const T* from = dout.data<T>();
    T* to = dx.data<T>();
    parallel_for(rows.numel(), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m) {
        if (!local_rows.contains(row[m])) continue;
        const T* add = from + m * columns;
        T* sum = to + (row[m] - first) * columns;
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) {
          sum[c] = from_float<T>(to_float(sum[c]) + to_float(add[c]));
        }
      }
    });
  });
}

void argmax_rows(const Tensor& x, Tensor out) {
  const int64_t columns = x.dim(1);
  int32_t* best = out.data<int32_t>();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* from = x.data<T>();
    for (int64_t n = 0; n < x.dim(0); ++n) {
      const T* row = from + n * columns;
      const auto less = [](T a, T b) { return to_float(a) < to_float(b); };
      best[n] = static_cast<int32_t>(std::max_element(row, row + columns, less) - row);
    }
  });
}

void gather_ints(const Tensor& values, const Tensor& rows, Tensor out) {
  const int32_t* from = values.data<int32_t>();
  const auto chosen = rows.span<int32_t>();
  for (size_t m = 0; m < chosen.size(); ++m) out.data<int32_t>()[m] = from[chosen[m]];
}

void count_equal(const Tensor& a, const Tensor& b, Tensor count) {
  const auto x = a.span<int32_t>(), y = b.span<int32_t>();
  int64_t equal = 0;
  for (size_t i = 0; i < x.size(); ++i) equal += x[i] == y[i];
  count.data<double>()[0] += static_cast<double>(equal);
}

}  // namespace tessera::cpu
