#include "core/ops/matmul.h"

#include "core/error.h"
#include "core/ops/cpu/matmul.h"

namespace tessera {
namespace {

int64_t rows_of(const Tensor& x) { return x.dim(-1) == 0 ? 0 : x.numel() / x.dim(-1); }

void check_linear(const char* op, const Tensor& x, const Tensor& w, const Tensor& y) {
  require(x.defined() && w.defined() && y.defined(), "{}: an argument is undefined", op);
  require(x.shape().rank() >= 1 && y.shape().rank() >= 1 && w.shape().rank() == 2 &&
              x.dim(-1) == w.dim(1) && y.dim(-1) == w.dim(0) && rows_of(x) == rows_of(y),
          "{}: activations {} and {} do not fit weights {}: they must be (..., K), (..., N) and "
          "(N, K)",
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
  if (y.device().is_meta()) return;
  const cpu::Matrix a{x, rows_of(x), x.dim(-1), cpu::Layout::rows};
  const cpu::Matrix b{w, w.dim(1), w.dim(0), cpu::Layout::columns};
  cpu::matmul(a, b, bias, y, Accumulate::no);
}

void linear_backward_input(const Tensor& dy, const Tensor& w, Tensor dx) {
  constexpr const char* kOp = "linear_backward_input";
  check_linear(kOp, dx, w, dy);
  require_dtype(w, dy.dtype(), kOp, "w");
  require_dtype(dx, dy.dtype(), kOp, "dx");
  if (dx.device().is_meta()) return;
  const cpu::Matrix a{dy, rows_of(dy), dy.dim(-1), cpu::Layout::rows};
  const cpu::Matrix b{w, w.dim(0), w.dim(1), cpu::Layout::rows};
  cpu::matmul(a, b, {}, dx, Accumulate::no);
}

void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor dw, Accumulate accumulate) {
  constexpr const char* kOp = "linear_backward_weight";
  check_linear(kOp, x, dw, dy);
  require_dtype(x, dy.dtype(), kOp, "x");
  require_dtype(dw, DType::f32, kOp, "dw");
  if (dw.device().is_meta()) return;
  const cpu::Matrix a{dy, dy.dim(-1), rows_of(dy), cpu::Layout::columns};
  const cpu::Matrix b{x, rows_of(x), x.dim(-1), cpu::Layout::rows};
  cpu::matmul(a, b, {}, dw, accumulate);
}

}  // namespace tessera
