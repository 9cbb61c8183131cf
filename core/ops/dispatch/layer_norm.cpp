#include "core/ops/layer_norm.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/elementwise.h"

namespace tessera {
namespace {

void require_vector(const Tensor& tensor, const Tensor& x, DType dtype, const char* op,
                    const char* name) {
  require_shape(tensor, {columns_of(x)}, op, name);
  require_dtype(tensor, dtype, op, name);
}

void require_statistic(const Tensor& tensor, const Tensor& x, const char* op, const char* name) {
  require(tensor.defined() && tensor.numel() == rows_of(x) && tensor.dtype() == DType::f32,
          "{}: {} must be fp32 with one element for each of the {} rows of x, but is {}", op, name,
          rows_of(x), describe(tensor));
}

/// Checks the input, which messages call `name`, and the outputs of the norm; returns their device.
Device check_forward(const char* op, const char* name, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, float eps, const Tensor& y, const Tensor& mean,
                     const Tensor& rstd) {
  require_float(x, op, name);
  require_vector(weight, x, x.dtype(), op, "weight");
  if (bias.defined()) require_vector(bias, x, x.dtype(), op, "bias");
  require_like(y, x, op, "y");
  if (mean.defined()) require_statistic(mean, x, op, "mean");
  require_statistic(rstd, x, op, "rstd");
  require(eps >= 0.0f, "{}: eps must not be negative, but is {}", op, eps);
  return common_device(op, x, weight, bias, y, mean, rstd);
}

}  // namespace

void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps,
                        Tensor y, Tensor mean, Tensor rstd) {
  const OpRange range("layer_norm_forward");
  constexpr const char* kOp = "layer_norm_forward";
  const Device device = check_forward(kOp, "x", x, weight, bias, eps, y, mean, rstd);
  require_same_or_disjoint(y, "y", x, "x", kOp);
  dispatch<cpu::layer_norm_forward, cuda::layer_norm_forward, meta::layer_norm_forward>(
      device, x, weight, bias, eps, y, mean, rstd);
}

void bias_dropout_add_norm(const Tensor& x, const Tensor& bias, const Tensor& residual,
                           const Dropout& dropout, Tensor sum, const Tensor& weight,
                           const Tensor& norm_bias, float eps, Tensor y, Tensor mean, Tensor rstd) {
  const OpRange range("bias_dropout_add_norm");
  constexpr const char* kOp = "bias_dropout_add_norm";
  check_forward(kOp, "sum", sum, weight, norm_bias, eps, y, mean, rstd);
  for (const Tensor* tensor : {&x, &residual, static_cast<const Tensor*>(&sum)}) {
    require_disjoint(y, "y", *tensor, "x, residual or sum", kOp);
  }
  require_like(x, sum, kOp, "x");
  require_like(residual, sum, kOp, "residual");
  if (bias.defined()) require_vector(bias, sum, sum.dtype(), kOp, "bias");
  require_dropout(dropout, sum, kOp);
  require_same_or_disjoint(sum, "sum", x, "x", kOp);
  require_same_or_disjoint(sum, "sum", residual, "residual", kOp);
  const Device device = common_device(kOp, x, bias, residual, sum, weight, norm_bias, y, mean, rstd,
                                      dropout.rows, dropout.rng_offset);
  dispatch<cpu::bias_dropout_add_norm, cuda::bias_dropout_add_norm, meta::bias_dropout_add_norm>(
      device, x, bias, residual, dropout, sum, weight, norm_bias, eps, y, mean, rstd);
}

void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, Tensor dx,
                         Tensor dweight, Tensor dbias, const Tensor& addend,
                         Accumulate accumulate) {
  const OpRange range("layer_norm_backward");
  constexpr const char* kOp = "layer_norm_backward";
  require_float(x, kOp, "x");
  require_like(dy, x, kOp, "dy");
  require_vector(weight, x, x.dtype(), kOp, "weight");
  if (mean.defined()) require_statistic(mean, x, kOp, "mean");
  require_statistic(rstd, x, kOp, "rstd");
  if (residual.defined()) require_like(residual, x, kOp, "residual");
  if (addend.defined()) require_like(addend, x, kOp, "addend");
  require_like(dx, x, kOp, "dx");
  require_vector(dweight, x, DType::f32, kOp, "dweight");
  if (dbias.defined()) require_vector(dbias, x, DType::f32, kOp, "dbias");
  require_disjoint(dx, "dx", x, "x", kOp);
  require_same_or_disjoint(dx, "dx", dy, "dy", kOp);
  require_same_or_disjoint(dx, "dx", residual, "residual", kOp);
  require_same_or_disjoint(dx, "dx", addend, "addend", kOp);
  const Device device =
      common_device(kOp, dy, x, weight, mean, rstd, residual, dx, dweight, dbias, addend);
  if (x.numel() == 0 && accumulate == Accumulate::no) {
    fill(dweight, 0.0);
    if (dbias.defined()) fill(dbias, 0.0);
    return;
  }
  dispatch<cpu::layer_norm_backward, cuda::layer_norm_backward, meta::layer_norm_backward>(
      device, dy, x, weight, mean, rstd, residual, dx, dweight, dbias, addend, accumulate);
}

}  // namespace tessera
