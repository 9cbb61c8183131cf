#include "core/ops/lion.h"

#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/dispatch/optimizer_checks.h"

namespace tessera {

void lion_step(const Lion& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
               Tensor master, Tensor value) {
  const OpRange range("lion_step");
  constexpr const char* kOp = "lion_step";
  require_dtype(grad, DType::f32, kOp, "grad");
  require_moment(exp_avg, settings.moment_rounding.has_value(), kOp, "exp_avg");
  require_weights(kOp, grad_scale, {grad, "grad"}, {{exp_avg, "exp_avg"}}, master, value,
                  settings.rounding.has_value());
  require_decay(settings.beta1, kOp, "beta1");
  require_decay(settings.beta2, kOp, "beta2");
  const Device device = common_device(kOp, grad_scale, grad, exp_avg, master, value);
  dispatch<cpu::lion_step, cuda::lion_step, meta::lion_step>(device, settings, grad_scale, grad,
                                                             exp_avg, master, value);
}

}  // namespace tessera
