#include "core/ops/matmul.h"

#include "core/error.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/meta/matmul.h"
#include "core/ops/reduce.h"

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

Device check_forward(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias,
                     const Tensor& y) {
  check_linear(op, x, w, y);
  require_dtype(w, x.dtype(), op, "w");
  require_dtype(y, x.dtype(), op, "y");
  if (bias.defined()) {
    require_shape(bias, {w.dim(0)}, op, "bias");
    require_dtype(bias, x.dtype(), op, "bias");
  }
  require_disjoint(y, "y", x, "x", op);
  require_disjoint(y, "y", w, "w", op);
  return common_device(op, x, w, bias, y);
}

Device check_backward_input(const char* op, const Tensor& dy, const Tensor& w, const Tensor& dx) {
  check_linear(op, dx, w, dy);
  require_dtype(w, dy.dtype(), op, "w");
  require_dtype(dx, dy.dtype(), op, "dx");
  require_disjoint(dx, "dx", dy, "dy", op);
  require_disjoint(dx, "dx", w, "w", op);
  return common_device(op, dy, w, dx);
}

Device check_backward_weight(const char* op, const Tensor& dy, const Tensor& x, const Tensor& dw) {
  check_linear(op, x, dw, dy);
  require_dtype(x, dy.dtype(), op, "x");
  require_dtype(dw, DType::f32, op, "dw");
  require_disjoint(dw, "dw", dy, "dy", op);
  require_disjoint(dw, "dw", x, "x", op);
  return common_device(op, dy, x, dw);
}

Matrix rows_as_matrix(const Tensor& x) { return {x, rows_of(x), x.dim(-1), MatrixLayout::rows}; }
Matrix transposed_rows(const Tensor& x) {
  return {x, x.dim(-1), rows_of(x), MatrixLayout::columns};
}
Matrix weights(const Tensor& w) { return {w, w.dim(0), w.dim(1), MatrixLayout::rows}; }
Matrix transposed_weights(const Tensor& w) {
  return {w, w.dim(1), w.dim(0), MatrixLayout::columns};
}

}  // namespace

void linear_forward(const Tensor& x, const Tensor& w, const Tensor& bias, Tensor y) {
  const OpRange range("linear_forward");
  const Device device = check_forward("linear_forward", x, w, bias, y);
  const Matrix a = rows_as_matrix(x), b = transposed_weights(w);
  dispatch<cpu::matmul, cuda::matmul, meta::matmul>(device, a, b, bias, y, Accumulate::no);
}

void linear_activation_forward(const Tensor& x, const Tensor& w, const Tensor& bias,
                               Activation kind, Tensor hidden, Tensor active) {
  const OpRange range("linear_activation_forward");
  constexpr const char* kOp = "linear_activation_forward";
  const Device device = check_forward(kOp, x, w, bias, hidden);
  require_like(active, hidden, kOp, "active");
  require_disjoint(active, "active", x, "x", kOp);
  require_disjoint(active, "active", w, "w", kOp);
  require_disjoint(active, "active", hidden, "hidden", kOp);
  const Matrix a = rows_as_matrix(x);
  if (!device.is_cpu() && cuda::fuses_gelu(a, hidden, kind)) {
    common_device(kOp, hidden, active);
    return dispatch_fused<cuda::matmul_gelu, meta::matmul_gelu>(device, a, transposed_weights(w),
                                                                bias, hidden, active);
  }
  linear_forward(x, w, bias, hidden);
  activation_forward(hidden, kind, active);
}

void linear_backward_input(const Tensor& dy, const Tensor& w, Tensor dx) {
  const OpRange range("linear_backward_input");
  const Device device = check_backward_input("linear_backward_input", dy, w, dx);
  const Matrix a = rows_as_matrix(dy), b = weights(w);
  dispatch<cpu::matmul, cuda::matmul, meta::matmul>(device, a, b, Tensor(), dx, Accumulate::no);
}

void linear_activation_backward_input(const Tensor& dy, const Tensor& w, const Tensor& hidden,
                                      Activation kind, Tensor dhidden) {
  const OpRange range("linear_activation_backward_input");
  constexpr const char* kOp = "linear_activation_backward_input";
  const Device device = check_backward_input(kOp, dy, w, dhidden);
  require_like(hidden, dhidden, kOp, "hidden");
  require_disjoint(dhidden, "dhidden", hidden, "hidden", kOp);
  const Matrix a = rows_as_matrix(dy);
  if (!device.is_cpu() && cuda::fuses_gelu(a, dhidden, kind)) {
    common_device(kOp, dhidden, hidden);
    return dispatch_fused<cuda::matmul_gelu_backward, meta::matmul_gelu_backward>(
        device, a, weights(w), hidden, dhidden);
  }
  linear_backward_input(dy, w, dhidden);
  activation_backward(dhidden, hidden, kind, dhidden);
}

void linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor dw, Accumulate accumulate) {
  const OpRange range("linear_backward_weight");
  const Device device = check_backward_weight("linear_backward_weight", dy, x, dw);
  const Matrix a = transposed_rows(dy), b = rows_as_matrix(x);
  dispatch<cpu::matmul, cuda::matmul, meta::matmul>(device, a, b, Tensor(), dw, accumulate);
}

void linear_backward_weight_bias(const Tensor& dy, const Tensor& x, Tensor dw,
                                 Accumulate accumulate, Tensor dbias, Accumulate accumulate_bias) {
  constexpr const char* kOp = "linear_backward_weight_bias";
  if (!dbias.defined()) return linear_backward_weight(dy, x, dw, accumulate);
  const OpRange range(kOp);
  const Device device = check_backward_weight(kOp, dy, x, dw);
  require_shape(dbias, {dy.dim(-1)}, kOp, "dbias");
  require_dtype(dbias, DType::f32, kOp, "dbias");
  require_disjoint(dbias, "dbias", dw, "dw", kOp);
  if (!device.is_cpu() && dy.numel() > 0) {
    common_device(kOp, dw, dbias);
    return dispatch_fused<cuda::matmul_row_sums, meta::matmul_row_sums>(
        device, transposed_rows(dy), rows_as_matrix(x), dw, accumulate, dbias, accumulate_bias);
  }
  linear_backward_weight(dy, x, dw, accumulate);
  column_sum(dy, dbias, accumulate_bias);
}

}  // namespace tessera
