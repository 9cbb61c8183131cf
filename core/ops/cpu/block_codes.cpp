#include "core/ops/block_codes.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

/// Returns the block's scale.
float quantize_block(const float* middle, const float* x, int64_t count, uint8_t* codes) {
  float largest = 0.0f;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i]));
  const float scale = code_scale(largest);
  if (scale == 0.0f) {
    std::fill_n(codes, count, static_cast<uint8_t>(nearest_code(middle, 0.0f)));
    return scale;
  }
  // nearest_code(), one comparison of all numbers after the other, which compilers vectorize.
  float numbers[kCodeBlock];
  int32_t found[kCodeBlock] = {};
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) numbers[i] = x[i] / scale;
  for (int32_t step = CodeTable::kCodes / 2; step > 0; step /= 2) {
    const float* middles = middle + step - 1;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float compared = middles[found[i]];
      found[i] += numbers[i] > compared ? step : 0;
    }
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(found[i]);
  return scale;
}

/// Calls body(block, first, count) for all blocks of n elements.
template <typename Body>
void for_each_code_block(int64_t n, const Body& body) {
  parallel_for(ceil_div(n, kCodeBlock), grain_for(kCodeBlock), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kCodeBlock;
      body(block, first, std::min(kCodeBlock, n - first));
    }
  });
}

}  // namespace

void quantize_blocks(const Tensor& x, CodeMap map, Tensor codes, Tensor scales) {
  const float* middle = code_table(map).middle;
  const float* from = x.data<float>();
  auto* to = codes.data<uint8_t>();
  float* scale = scales.data<float>();
  for_each_code_block(x.numel(), [=](int64_t block, int64_t first, int64_t count) {
    scale[block] = quantize_block(middle, from + first, count, to + first);
  });
}

void dequantize_blocks(const Tensor& codes, const Tensor& scales, CodeMap map, Tensor x) {
  const float* value = code_table(map).value;
  const auto* from = codes.data<uint8_t>();
  const float* scale = scales.data<float>();
  float* to = x.data<float>();
  for_each_code_block(x.numel(), [=](int64_t block, int64_t first, int64_t count) {
    const float factor = scale[block];
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) to[i] = value[from[i]] * factor;
  });
}

}  // namespace tessera::cpu
