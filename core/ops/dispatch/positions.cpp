#include "core/ops/positions.h"

#include "core/checked.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void fill_positions(int64_t first, Tensor positions) {
  constexpr const char* kOp = "fill_positions";
  const OpRange range(kOp);
  require_dtype(positions, DType::i32, kOp, "positions");
  require(positions.shape().rank() == 2, "{}: positions must have shape (B, T), but are {}", kOp,
          describe(positions));
  narrow<int32_t>(first + positions.dim(1));
  dispatch<cpu::fill_positions, cuda::fill_positions, meta::fill_positions>(positions.device(),
                                                                            first, positions);
}

}  // namespace tessera
