#include "core/ops/reduce.h"

#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/elementwise.h"

namespace tessera {

void add_sum_of_squares(const Tensor& x, Tensor out) {
  const OpRange range("add_sum_of_squares");
  constexpr const char* kOp = "add_sum_of_squares";
  require_float(x, kOp, "x");
  require_shape(out, {1}, kOp, "out");
  require_dtype(out, DType::f64, kOp, "out");
  require_disjoint(out, "out", x, "x", kOp);
  const Device device = common_device(kOp, x, out);
  dispatch<cpu::add_sum_of_squares, cuda::add_sum_of_squares, meta::add_sum_of_squares>(device, x,
                                                                                        out);
}

void column_sum(const Tensor& x, Tensor out, Accumulate accumulate) {
  const OpRange range("column_sum");
  constexpr const char* kOp = "column_sum";
  require_float(x, kOp, "x");
  require_shape(out, {columns_of(x)}, kOp, "out");
  require_dtype(out, DType::f32, kOp, "out");
  require_disjoint(out, "out", x, "x", kOp);
  const Device device = common_device(kOp, x, out);
  if (x.numel() == 0 && accumulate == Accumulate::no) return fill(out, 0.0);
  dispatch<cpu::column_sum, cuda::column_sum, meta::column_sum>(device, x, out, accumulate);
}

}  // namespace tessera
