#include "core/ops/positions.h"

#include "core/ops/device_ops.h"

namespace tessera::cpu {

void fill_positions(int64_t first, Tensor positions) {
  const int64_t length = positions.dim(1);
  int32_t* out = positions.data<int32_t>();
  for (int64_t i = 0; i < positions.numel(); ++i) {
    out[i] = static_cast<int32_t>(first + i % length);
  }
}

}  // namespace tessera::cpu
