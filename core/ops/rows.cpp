#include "core/ops/rows.h"

#include "core/error.h"
#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"

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

void gather_rows(const Tensor& x, const Tensor& rows, Tensor out) {
  constexpr const char* kOp = "gather_rows";
  check_rows(x, "x", rows, out, "out", kOp);
  if (any_meta(x, rows, out)) return;
  cpu::gather_rows(x, rows, out);
}

void scatter_add_rows(const Tensor& dout, const Tensor& rows, Tensor dx) {
  constexpr const char* kOp = "scatter_add_rows";
  check_rows(dx, "dx", rows, dout, "dout", kOp);
  if (any_meta(dout, rows, dx)) return;
  cpu::scatter_add_rows(dout, rows, dx);
}

void argmax_rows(const Tensor& x, Tensor out) {
  constexpr const char* kOp = "argmax_rows";
  require_float(x, kOp, "x");
  require(x.shape().rank() == 2 && x.dim(1) >= 1, "{}: x must have shape (N, K), but is {}", kOp,
          describe(x));
  require_shape(out, {x.dim(0)}, kOp, "out");
  require_dtype(out, DType::i32, kOp, "out");
  if (any_meta(x, out)) return;
  cpu::argmax_rows(x, out);
}

}  // namespace tessera
