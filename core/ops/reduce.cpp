#include "core/ops/reduce.h"

#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"

namespace tessera {

double sum_of_squares(const Tensor& x) {
  require_dtype(x, DType::f32, "sum_of_squares", "x");
  if (any_meta(x)) return 0.0;
  return cpu::sum_of_squares(x);
}

double sum(const Tensor& x) {
  require_dtype(x, DType::f32, "sum", "x");
  if (any_meta(x)) return 0.0;
  return cpu::sum(x);
}

void column_sum(const Tensor& x, Tensor out) {
  constexpr const char* kOp = "column_sum";
  require_float(x, kOp, "x");
  require_shape(out, {columns_of(x)}, kOp, "out");
  require_dtype(out, DType::f32, kOp, "out");
  require_disjoint(out, "out", x, "x", kOp);
  if (any_meta(x, out)) return;
  cpu::column_sum(x, out);
}

}  // namespace tessera
