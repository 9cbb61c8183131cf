#include "core/ops/lion.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {

void lion_step(const Lion& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
               Tensor master, Tensor value) {
  const OpRange range("lion_step");
  constexpr const char* kOp = "lion_step";
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
  require_dtype(master, DType::f32, kOp, "master");
  require_float(value, kOp, "value");
  require_elements(exp_avg, "exp_avg");
  require_elements(master, "master");
  require_elements(value, "value");
  require(!settings.rounding || value.dtype() == DType::bf16,
          "{}: only bf16 values are rounded stochastically, but value is {}", kOp, describe(value));
  require_disjoint(exp_avg, "exp_avg", master, "master", kOp);
  require_disjoint(value, "value", exp_avg, "exp_avg", kOp);
  require_same_or_disjoint(value, "value", master, "master", kOp);
  const auto require_beta = [&](float beta, const char* name) {
    require(0.0f <= beta && beta < 1.0f, "{}: {} must be in [0, 1), but is {}", kOp, name, beta);
  };
  require_beta(settings.beta1, "beta1");
  require_beta(settings.beta2, "beta2");
  const Device device = common_device(kOp, grad_scale, grad, exp_avg, master, value);
  dispatch<cpu::lion_step, cuda::lion_step, meta::lion_step>(device, settings, grad_scale, grad,
                                                             exp_avg, master, value);
}

}  // namespace tessera
