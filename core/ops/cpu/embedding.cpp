#include "core/ops/embedding.h"

#include <cstring>

#include "core/error.h"
#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

/// sum[i] += x[i]
template <typename T>
void accumulate(const T* x, int64_t n, float* sum) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += to_float(x[i]);
}

}  // namespace

void embedding_forward(const Tensor& ids, const Tensor& table, Range local_rows, Tensor out) {
  const size_t row_bytes = static_cast<size_t>(table.dim(1)) * size_of(table.dtype());
  const int32_t* id = ids.data<int32_t>();
  const auto* rows = static_cast<const std::byte*>(table.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  if (row_bytes == 0) return;
  parallel_for(ids.numel(), grain_for(table.dim(1)), [=](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      std::byte* row = to + static_cast<size_t>(n) * row_bytes;
      if (local_rows.contains(id[n])) {
        std::memcpy(row, rows + static_cast<size_t>(id[n] - local_rows.begin) * row_bytes,
                    row_bytes);
      } else {
        std::memset(row, 0, row_bytes);
      }
    }
  });
}

// Each thread owns a range of columns and visits all ids in order. So no two threads write the same
// element, and every sum is in the order of the ids.
void embedding_backward(const Tensor& ids, const Tensor& dout, Range local_rows, Tensor dtable) {
  constexpr int64_t kCacheLine = 16;  // fp32 elements; avoids false sharing
  const int64_t count = ids.numel(), columns = dtable.dim(1);
  const int32_t* id = ids.data<int32_t>();
  float* table = dtable.data<float>();
  dispatch_float(dout.dtype(), [&]<typename T>() {
    const T* gradient = dout.data<T>();
    const int64_t grain = round_up(grain_for(count), kCacheLine);
    parallel_for(columns, grain, [=](int64_t begin, int64_t end) {
      for (int64_t n = 0; n < count; ++n) {
        if (!local_rows.contains(id[n])) continue;
        accumulate(gradient + n * columns + begin, end - begin,
                   table + (id[n] - local_rows.begin) * columns + begin);
      }
    });
  });
}

void embedding_add(const Tensor& x, const Tensor& ids, const Tensor& table, Tensor out) {
  for (const int32_t id : ids.span<int32_t>()) {
    require(0 <= id && id < table.dim(0), "embedding_add: id {} is not in a table of {} rows", id,
            table.dim(0));
  }
  const int64_t columns = x.dim(-1);
  const int32_t* id = ids.data<int32_t>();
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T *in = x.data<T>(), *rows = table.data<T>();
    T* to = out.data<T>();
    parallel_for(ids.numel(), grain_for(columns), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const T* in_row = in + n * columns;
        const T* add = rows + id[n] * columns;
        T* out_row = to + n * columns;
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) {
          out_row[c] = from_float<T>(to_float(in_row[c]) + to_float(add[c]));
        }
      }
    });
  });
}

}  // namespace tessera::cpu
