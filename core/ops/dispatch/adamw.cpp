#include "core/ops/adamw.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value) {
  const OpRange range("adamw_step");
  constexpr const char* kOp = "adamw_step";
  require_shape(grad_scale, {1}, kOp, "grad_scale");
  require_dtype(grad_scale, DType::f32, kOp, "grad_scale");
  require_dtype(grad, DType::f32, kOp, "grad");
  const auto require_elements = [&](const Tensor& tensor, const char* name) {
    require(tensor.defined() && tensor.numel() == grad.numel(),
            "{}: {} must have the {} elements of grad, but is {}", kOp, name, grad.numel(),
            describe(tensor));
    require_disjoint(tensor, name, grad, "grad", kOp);
    require_disjoint(tensor, name, grad_scale, "grad_scale", kOp);
  };
  const DType moment_dtype = settings.moment_rounding ? DType::bf16 : DType::f32;
  require_dtype(exp_avg, moment_dtype, kOp, "exp_avg");
  require_dtype(exp_avg_sq, moment_dtype, kOp, "exp_avg_sq");
  require_dtype(master, DType::f32, kOp, "master");
  require_elements(exp_avg, "exp_avg");
  require_elements(exp_avg_sq, "exp_avg_sq");
  require_elements(master, "master");
  require_elements(value, "value");
  require_float(value, kOp, "value");
  require(!settings.rounding || value.dtype() == DType::bf16,
          "{}: only bf16 values are rounded stochastically, but value is {}", kOp, describe(value));
  require_disjoint(exp_avg, "exp_avg", exp_avg_sq, "exp_avg_sq", kOp);
  require_disjoint(exp_avg, "exp_avg", master, "master", kOp);
  require_disjoint(exp_avg_sq, "exp_avg_sq", master, "master", kOp);
  require_same_or_disjoint(value, "value", master, "master", kOp);
  require(settings.step >= 1, "{}: steps count from 1, but step is {}", kOp, settings.step);
  const auto require_beta = [&](float beta, const char* name) {
    require(0.0f <= beta && beta < 1.0f, "{}: {} must be in [0, 1), but is {}", kOp, name, beta);
  };
  require_beta(settings.beta1, "beta1");
  require_beta(settings.beta2, "beta2");
  const Device device = common_device(kOp, grad_scale, grad, exp_avg, exp_avg_sq, master, value);
  dispatch<cpu::adamw_step, cuda::adamw_step, meta::adamw_step>(device, settings, grad_scale, grad,
                                                                exp_avg, exp_avg_sq, master, value);
}

}  // namespace tessera
