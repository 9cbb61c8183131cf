#include "core/ops/fp8.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

constexpr std::array<float, 256> kFp8Values = [] {
  std::array<float, 256> values = {};
  for (int code = 0; code < 256; ++code) {
    values[static_cast<size_t>(code)] = fp8_value(static_cast<uint8_t>(code));
  }
  return values;
}();

float largest_of(const bfloat16* x) {
  float largest = 0.0f;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < kFp8Block; ++i) {
    largest = std::max(largest, finite_magnitude(static_cast<float>(x[i])));
  }
  return largest;
}

void encode_block(const bfloat16* x, float inverse, uint8_t* codes) {
#pragma omp simd
  for (int64_t i = 0; i < kFp8Block; ++i) {
    codes[i] = fp8_code(static_cast<float>(x[i]) * inverse);
  }
}

/// The numbers that `rows` rows of codes stand for, in memory that is reused by the next call.
/// `scale_of(row, block)` is the scale of 128 columns.
template <typename ScaleOf>
Tensor decoded(const Tensor& codes, int64_t rows, std::vector<bfloat16>& storage,
               const ScaleOf& scale_of) {
  const int64_t columns = codes.dim(1);
  storage.resize(static_cast<size_t>(rows * columns));
  const auto* from = codes.data<uint8_t>();
  bfloat16* to = storage.data();
  parallel_for(rows, grain_for(columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * columns; i < end * columns; i += kFp8Block) {
      const float scale = scale_of(i / columns, i % columns / kFp8Block);
#pragma omp simd
      for (int64_t j = i; j < i + kFp8Block; ++j) to[j] = bfloat16(kFp8Values[from[j]] * scale);
    }
  });
  return {to, {rows, columns}, DType::bf16, kCpu};
}

}  // namespace

void quantize_fp8_rows(const Tensor& x, const Fp8Matrix& out) {
  const int64_t rows = rows_of(x), columns = x.dim(-1), padded = out.codes.dim(0);
  const Fp8RowScales places(rows, columns);
  const auto* from = x.data<bfloat16>();
  auto* codes = out.codes.data<uint8_t>();
  auto* scales = out.scales.data<float>();
  parallel_for(padded, grain_for(columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * columns; i < end * columns; i += kFp8Block) {
      const int64_t row = i / columns, block = i % columns / kFp8Block;
      const Fp8Scale scale(row < rows ? largest_of(from + i) : 0.0f);
      scales[places.index(row, block)] = scale.scale;
      if (row < rows) {
        encode_block(from + i, scale.inverse, codes + i);
      } else {
        std::fill_n(codes + i, kFp8Block, uint8_t{0});
      }
    }
  });
}

void quantize_fp8_weights(const Tensor& w, MatrixLayout layout, const Fp8Matrix& out) {
  const int64_t columns = w.dim(1), across = columns / kFp8Block, down = w.dim(0) / kFp8Block;
  const bool by_rows = layout == MatrixLayout::rows;
  const int64_t scale_columns = out.scales.dim(1), code_columns = out.codes.dim(1);
  const auto* from = w.data<bfloat16>();
  auto* codes = out.codes.data<uint8_t>();
  auto* scales = out.scales.data<float>();
  parallel_for(down * across, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t i = tile / across, j = tile % across;
      const bfloat16* first = from + (i * columns + j) * kFp8Block;
      float largest = 0.0f;
      for (int64_t row = 0; row < kFp8Block; ++row) {
        largest = std::max(largest, largest_of(first + row * columns));
      }
      const Fp8Scale scale(largest);
      scales[by_rows ? i * scale_columns + j : j * scale_columns + i] = scale.scale;
      uint8_t line[kFp8Block];
      for (int64_t row = 0; row < kFp8Block; ++row) {
        encode_block(first + row * columns, scale.inverse, line);
        const int64_t at = i * kFp8Block + row;
        for (int64_t column = 0; column < kFp8Block; ++column) {
          const int64_t to = j * kFp8Block + column;
          codes[by_rows ? at * code_columns + to : to * code_columns + at] = line[column];
        }
      }
    }
  });
}

void linear_fp8(const Fp8Matrix& x, const Fp8Matrix& w, const Tensor& bias, Tensor y) {
  thread_local std::vector<bfloat16> storage[2];
  const int64_t rows = rows_of(y), n = w.codes.dim(0), k = w.codes.dim(1);
  const Fp8RowScales places(rows, k);
  const float *of_rows = x.scales.data<float>(), *of_weights = w.scales.data<float>();
  const int64_t scale_columns = w.scales.dim(1);
  const Tensor a = decoded(x.codes, rows, storage[0], [&](int64_t row, int64_t block) {
    return of_rows[places.index(row, block)];
  });
  const Tensor b = decoded(w.codes, n, storage[1], [&](int64_t row, int64_t block) {
    return of_weights[row / kFp8Block * scale_columns + block];
  });
  matmul({a, rows, k, MatrixLayout::rows}, {b, k, n, MatrixLayout::columns}, bias, y,
         Accumulate::no);
}

}  // namespace tessera::cpu
