#include "core/ops/adamw.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/dispatch/optimizer_checks.h"

namespace tessera {

void adamw_step(const AdamW& settings, const Tensor& grad_scale, const Tensor& grad, Tensor exp_avg,
                Tensor exp_avg_sq, Tensor master, Tensor value) {
  const OpRange range("adamw_step");
  constexpr const char* kOp = "adamw_step";
  require_dtype(grad, DType::f32, kOp, "grad");
  const bool rounds_moments = settings.moment_rounding.has_value();
  require_moment(exp_avg, rounds_moments, kOp, "exp_avg");
  require_moment(exp_avg_sq, rounds_moments, kOp, "exp_avg_sq");
  require_weights(kOp, grad_scale, {grad, "grad"},
                  {{exp_avg, "exp_avg"}, {exp_avg_sq, "exp_avg_sq"}}, master, value,
                  settings.rounding.has_value());
  require(settings.step >= 1, "{}: steps count from 1, but step is {}", kOp, settings.step);
  require_decay(settings.beta1, kOp, "beta1");
  require_decay(settings.beta2, kOp, "beta2");
  const Device device = common_device(kOp, grad_scale, grad, exp_avg, exp_avg_sq, master, value);
  dispatch<cpu::adamw_step, cuda::adamw_step, meta::adamw_step>(device, settings, grad_scale, grad,
                                                                exp_avg, exp_avg_sq, master, value);
}

}  // namespace tessera
