#include "core/ops/reduce.h"

#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"
#include "core/ops/cuda/ops.h"
#include "core/trace/trace.h"

namespace tessera {

void add_sum_of_squares(const Tensor& x, Tensor out) {
  const TraceRange range("add_sum_of_squares");
  constexpr const char* kOp = "add_sum_of_squares";
  require_dtype(x, DType::f32, kOp, "x");
  require_shape(out, {1}, kOp, "out");
  require_dtype(out, DType::f64, kOp, "out");
  require_disjoint(out, "out", x, "x", kOp);
  const Device device = common_device(kOp, x, out);
  if (device.is_meta()) return;
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return cuda::add_sum_of_squares(x, out);
  }
  cpu::add_sum_of_squares(x, out);
}

void column_sum(const Tensor& x, Tensor out) {
  const TraceRange range("column_sum");
  constexpr const char* kOp = "column_sum";
  require_float(x, kOp, "x");
  require_shape(out, {columns_of(x)}, kOp, "out");
  require_dtype(out, DType::f32, kOp, "out");
  require_disjoint(out, "out", x, "x", kOp);
  const Device device = common_device(kOp, x, out);
  if (device.is_meta()) return;
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return cuda::column_sum(x, out);
  }
  cpu::column_sum(x, out);
}

}  // namespace tessera
