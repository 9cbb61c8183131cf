#include "core/ops/rows.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void check_rows(const Tensor& whole, const char* whole_name, const Tensor& rows, const Tensor& part,
                const char* part_name, const char* op) {
  require_float(whole, op, whole_name);
  require_dtype(rows, DType::i32, op, "rows");
  require_shape(part, {rows.numel(), columns_of(whole)}, op, part_name);
  require_dtype(part, whole.dtype(), op, part_name);
  require_disjoint(part, part_name, whole, whole_name, op);
}

}  // namespace

void gather_rows(const Tensor& x, const Tensor& rows, Tensor out, int64_t first) {
  const OpRange range("gather_rows");
  constexpr const char* kOp = "gather_rows";
  check_rows(x, "x", rows, out, "out", kOp);
  const Device device = common_device(kOp, x, rows, out);
  dispatch<cpu::gather_rows, cuda::gather_rows, meta::gather_rows>(device, x, rows, out, first);
}

void scatter_add_rows(const Tensor& dout, const Tensor& rows, Tensor dx, int64_t first) {
  const OpRange range("scatter_add_rows");
  constexpr const char* kOp = "scatter_add_rows";
  check_rows(dx, "dx", rows, dout, "dout", kOp);
  const Device device = common_device(kOp, dout, rows, dx);
  dispatch<cpu::scatter_add_rows, cuda::scatter_add_rows, meta::scatter_add_rows>(device, dout,
                                                                                  rows, dx, first);
}

void gather_ints(const Tensor& values, const Tensor& rows, Tensor out) {
  constexpr const char* kOp = "gather_ints";
  const OpRange range(kOp);
  require_dtype(values, DType::i32, kOp, "values");
  require_dtype(rows, DType::i32, kOp, "rows");
  require_like(out, rows, kOp, "out");
  require_disjoint(out, "out", values, "values", kOp);
  const Device device = common_device(kOp, values, rows, out);
  dispatch<cpu::gather_ints, cuda::gather_ints, meta::gather_ints>(device, values, rows, out);
}

void count_equal(const Tensor& a, const Tensor& b, Tensor count) {
  constexpr const char* kOp = "count_equal";
  const OpRange range(kOp);
  require_dtype(a, DType::i32, kOp, "a");
  require_like(b, a, kOp, "b");
  require_shape(count, {1}, kOp, "count");
  require_dtype(count, DType::f64, kOp, "count");
  const Device device = common_device(kOp, a, b, count);
  dispatch<cpu::count_equal, cuda::count_equal, meta::count_equal>(device, a, b, count);
}

void argmax_rows(const Tensor& x, Tensor out) {
  constexpr const char* kOp = "argmax_rows";
  const OpRange range(kOp);
  require_float(x, kOp, "x");
  require(x.shape().rank() == 2 && x.dim(1) >= 1, "{}: x must have shape (N, K), but is {}", kOp,
          describe(x));
  require_shape(out, {x.dim(0)}, kOp, "out");
  require_dtype(out, DType::i32, kOp, "out");
  const Device device = common_device(kOp, x, out);
  dispatch<cpu::argmax_rows, cuda::argmax_rows, meta::argmax_rows>(device, x, out);
}

}  // namespace tessera
