#include "core/ops/reduce.h"

#include <algorithm>
#include <array>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

template <typename T>
double chunk_squares(const T* x, int64_t n) {
  double total = 0.0;
  const auto block = [&](int64_t first, auto count) {
#pragma omp simd reduction(+ : total)
    for (int64_t i = first; i < first + count; ++i) {
      const auto value = static_cast<double>(to_float(x[i]));
      total += value * value;
    }
  };
  for_each_block<kSumBlock>(n, block, x);
  return total;
}

/// Σ x² over chunks of 4096 elements, in order within each of at most 256 pieces and then over the
/// pieces. The size of a piece depends only on the number of elements.
template <typename T>
double ordered_sum_of_squares(const Tensor& tensor) {
  constexpr int64_t kChunk = 4096, kPieces = 256;
  const T* x = tensor.data<T>();
  const int64_t n = tensor.numel();
  const int64_t size = round_up(std::max<int64_t>(ceil_div(n, kPieces), 1), kChunk);
  std::array<double, kPieces> sums{};
  parallel_for(ceil_div(n, size), grain_for(size), [&, x, n, size](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t piece_end = std::min(n, (piece + 1) * size);
      double total = 0.0;
      for (int64_t i = piece * size; i < piece_end; i += kChunk) {
        total += chunk_squares(x + i, std::min(kChunk, piece_end - i));
      }
      sums[static_cast<size_t>(piece)] = total;
    }
  });
  double total = 0.0;
  for (const double piece : sums) total += piece;
  return total;
}

/// Adds `rows` rows to `sums`, four at a time, so that the sums are loaded and stored a quarter as
/// often.
template <typename T>
void add_rows(const T* x, int64_t rows, int64_t columns, float* sums) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const T *a = x + row * columns, *b = a + columns, *c = b + columns, *d = c + columns;
    const auto block = [=](int64_t first, auto count) {
      for (int64_t next = 4; next < 8; ++next) fetch<kBlock>(a + next * columns + first);
#pragma omp simd
      for (int64_t i = first; i < first + count; ++i) {
        sums[i] += (to_float(a[i]) + to_float(b[i])) + (to_float(c[i]) + to_float(d[i]));
      }
    };
    for_each_block(columns, block);
  }
  for (; row < rows; ++row) {
    const T* a = x + row * columns;
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) sums[i] += to_float(a[i]);
  }
}

}  // namespace

void add_sum_of_squares(const Tensor& x, Tensor out) {
  dispatch_float(x.dtype(),
                 [&]<typename T>() { out.data<double>()[0] += ordered_sum_of_squares<T>(x); });
}

void column_sum(const Tensor& x, Tensor out, Accumulate accumulate) {
  const int64_t columns = out.numel();
  const RowBlocks blocks(columns == 0 ? 0 : x.numel() / columns, columns);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* in = x.data<T>();
    const int64_t grain = grain_for(blocks.rows_per_block() * columns);
    parallel_for(blocks.count(), grain, [=, &blocks](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const Range rows = blocks.rows(block);
        std::fill_n(blocks.partial(block), columns, 0.0f);
        add_rows(in + rows.begin * columns, rows.size(), columns, blocks.partial(block));
      }
    });
  });
  blocks.add_up(0, columns, accumulate, out.data<float>());
}

}  // namespace tessera::cpu
