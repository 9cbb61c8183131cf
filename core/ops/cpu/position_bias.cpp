#include "core/ops/position_bias.h"

#include <cstdlib>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {

void alibi_bias(int64_t first_head, int64_t total_heads, Tensor table) {
  const int64_t columns = table.dim(1), center = columns / 2;
  float* to = table.data<float>();
  parallel_for(table.dim(0), grain_for(columns), [=](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; ++h) {
      const auto slope = static_cast<float>(alibi_slope(first_head + h, total_heads));
      for (int64_t i = 0; i < columns; ++i) {
        to[h * columns + i] = -slope * static_cast<float>(std::abs(i - center));
      }
    }
  });
}

}  // namespace tessera::cpu
