#include "core/ops/layer_norm.h"

#include "core/error.h"
#include "core/ops/checks.h"
#include "core/ops/cpu/ops.h"
#include "core/ops/cuda/ops.h"
#include "core/trace.h"

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

}  // namespace

void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps,
                        Tensor y, Tensor mean, Tensor rstd) {
  const TraceRange range("layer_norm_forward");
  constexpr const char* kOp = "layer_norm_forward";
  require_float(x, kOp, "x");
  require_vector(weight, x, x.dtype(), kOp, "weight");
  if (bias.defined()) require_vector(bias, x, x.dtype(), kOp, "bias");
  require_like(y, x, kOp, "y");
  require_statistic(mean, x, kOp, "mean");
  require_statistic(rstd, x, kOp, "rstd");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  require(eps >= 0.0f, "{}: eps must not be negative, but is {}", kOp, eps);
  const Device device = common_device(kOp, x, weight, bias, y, mean, rstd);
  if (device.is_meta()) return;
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return cuda::layer_norm_forward(x, weight, bias, eps, y, mean, rstd);
  }
  cpu::layer_norm_forward(x, weight, bias, eps, y, mean, rstd);
}

void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const Tensor& residual, Tensor dx,
                         Tensor dweight, Tensor dbias) {
  const TraceRange range("layer_norm_backward");
  constexpr const char* kOp = "layer_norm_backward";
  require_float(x, kOp, "x");
  require_like(dy, x, kOp, "dy");
  require_vector(weight, x, x.dtype(), kOp, "weight");
  require_statistic(mean, x, kOp, "mean");
  require_statistic(rstd, x, kOp, "rstd");
  if (residual.defined()) require_like(residual, x, kOp, "residual");
  require_like(dx, x, kOp, "dx");
  require_vector(dweight, x, DType::f32, kOp, "dweight");
  if (dbias.defined()) require_vector(dbias, x, DType::f32, kOp, "dbias");
  require_disjoint(dx, "dx", x, "x", kOp);
  require_same_or_disjoint(dx, "dx", dy, "dy", kOp);
  require_same_or_disjoint(dx, "dx", residual, "residual", kOp);
  const Device device = common_device(kOp, dy, x, weight, mean, rstd, residual, dx, dweight, dbias);
  if (device.is_meta()) return;
  if constexpr (kHasCuda) {
    if (device.is_cuda())
      return cuda::layer_norm_backward(dy, x, weight, mean, rstd, residual, dx, dweight, dbias);
  }
  cpu::layer_norm_backward(dy, x, weight, mean, rstd, residual, dx, dweight, dbias);
}

}  // namespace tessera
