#include "core/ops/positions.h"

#include "core/checked.h"
#include "core/ops/cpu/ops.h"
#include "core/ops/cuda/ops.h"

namespace tessera {

void fill_positions(int64_t first, Tensor positions) {
  constexpr const char* kOp = "fill_positions";
  require_dtype(positions, DType::i32, kOp, "positions");
  require(positions.shape().rank() == 2, "{}: positions must have shape (B, T), but are {}", kOp,
          describe(positions));
  narrow<int32_t>(first + positions.dim(1));
  if (positions.device().is_meta()) return;
  if constexpr (kHasCuda) {
    if (positions.device().is_cuda()) return cuda::fill_positions(first, positions);
  }
  cpu::fill_positions(first, positions);
}

}  // namespace tessera
