#include "core/ops/matmul.h"

#include "core/error.h"
#include "core/ops/checks.h"
#include "core/ops/cpu/matmul.h"

namespace tessera {
namespace {

void check_linear(const char* op, const Tensor& x, const Tensor& w, const Tensor& y) {
  require(x.defined() && w.defined() && y.defined(), "{}: an argument is undefined", op);
  const bool fits = x.shape().rank() >= 1 && y.shape().rank() >= 1 && w.shape().rank() == 2 &&
                    x.dim(-1) == w.dim(1) && y.dim(-1) == w.dim(0) && rows_of(x) == rows_of(y);
  if (fits) return;
  fail(
      "{}: activations {} and {} do not fit weights {}: they must be (..., K), (..., N) and (N, K)",
      op, describe(x), describe(y), describe(w));
}

}  // namespace

void linear_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Tensor y) {
  constexpr const char* kOp = "linear_forward";
  check_linear(kOp, x, w, y);
  require_dtype(w, x.dtype(), kOp, "w");
  require_dtype(y, x.dtype(), kOp, "y");
  if (bias.defined()) {
    require_shape(bias, {w.dim(0)}, kOp, "bias");
    require_dtype(bias, x.dtype(), kOp, "bias");
  }
  require_disjoint(y, "y", x, "x", kOp);
  require_disjoint(y, "y", w, "w", kOp);
  if (any_meta(x, w, y)) return;
  const cpu::Matrix a{x, rows_of(x), x.dim(-1), cpu::Layout::rows};
  const cpu::Matrix b{w, w.dim(1), w.dim(0), cpu::Layout::columns};
  cpu::matmul(a, b, bias, y, Accumulate::no);
}

void linear_backward_input(const Tensor& dy, const Tensor& w, Tensor dx) {
  constexpr const char* kOp = "linear_backward_input";
  check_linear(kOp, dx, w, dy);
  require_dtype(w, dy.dtype(), kOp, "w");
  require_dtype(dx, dy.dtype(), kOp, "dx");
  require_disjoint(dx, "dx", dy, "dy", kOp);
  require_disjoint(dx, "dx", w, "w", kOp);
  if (any_meta(dy, w, dx)) return;
  const cpu::Matrix a{dy, rows_of(dy), dy.dim(-1), cpu::Layout::rows};
  const cpu::Matrix b{w, w.dim(0), w.dim(1), cpu::Layout::rows};
  cpu::matmul(a, b, {}, dx, Accumulate::no);
}

void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor dw, Accumulate accumulate) {
  constexpr const char* kOp = "linear_backward_weight";
  check_linear(kOp, x, dw, dy);
  require_dtype(x, dy.dtype(), kOp, "x");
  require_dtype(dw, DType::f32, kOp, "dw");
  require_disjoint(dw, "dw", dy, "dy", kOp);
  require_disjoint(dw, "dw", x, "x", kOp);
  if (any_meta(dy, x, dw)) return;
  const cpu::Matrix a{dy, dy.dim(-1), rows_of(dy), cpu::Layout::columns};
  const cpu::Matrix b{x, rows_of(x), x.dim(-1), cpu::Layout::rows};
  cpu::matmul(a, b, {}, dw, accumulate);
}

}  // namespace tessera
