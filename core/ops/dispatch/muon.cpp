#include "core/ops/muon.h"

#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/dispatch/optimizer_checks.h"

namespace tessera {

void muon_momentum(const MuonMomentum& settings, const Tensor& grad_scale, const Tensor& grad,
                   Tensor exp_avg, Tensor update) {
  const OpRange range("muon_momentum");
  constexpr const char* kOp = "muon_momentum";
  require_dtype(grad, DType::f32, kOp, "grad");
  require_moment(exp_avg, settings.moment_rounding.has_value(), kOp, "exp_avg");
  const Argument in{grad, "grad"}, moment{exp_avg, "exp_avg"};
  if (update.defined()) {
    require_float(update, kOp, "update");
    require_state(kOp, grad_scale, in, {moment, {update, "update"}});
  } else {
    require_state(kOp, grad_scale, in, {moment});
  }
  require_decay(settings.momentum, kOp, "momentum");
  const Device device = common_device(kOp, grad_scale, grad, exp_avg, update);
  dispatch<cpu::muon_momentum, cuda::muon_momentum, meta::muon_momentum>(
      device, settings, grad_scale, grad, exp_avg, update);
}

void muon_step(const MuonStep& settings, const Tensor& grad_scale, const Tensor& update,
               Tensor master, Tensor value) {
  const OpRange range("muon_step");
  constexpr const char* kOp = "muon_step";
  require_float(update, kOp, "update");
  require_dtype(value, update.dtype(), kOp, "value");
  require_weights(kOp, grad_scale, {update, "update"}, {}, master, value,
                  settings.rounding.has_value());
  const Device device = common_device(kOp, grad_scale, update, master, value);
  dispatch<cpu::muon_step, cuda::muon_step, meta::muon_step>(device, settings, grad_scale, update,
                                                             master, value);
}

}  // namespace tessera
