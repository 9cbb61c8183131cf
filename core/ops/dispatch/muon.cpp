#include "core/ops/muon.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void check_scale(const Tensor& grad_scale, const char* op) {
  require_shape(grad_scale, {1}, op, "grad_scale");
  require_dtype(grad_scale, DType::f32, op, "grad_scale");
}

void check_elements(const Tensor& tensor, const char* name, int64_t elements, const char* op) {
  require(tensor.numel() == elements, "{}: {} must have {} elements, but is {}", op, name, elements,
          describe(tensor));
}

}  // namespace

void muon_momentum(const MuonMomentum& settings, const Tensor& grad_scale, const Tensor& grad,
                   Tensor exp_avg, Tensor update) {
  const OpRange range("muon_momentum");
  constexpr const char* kOp = "muon_momentum";
  check_scale(grad_scale, kOp);
  require_dtype(grad, DType::f32, kOp, "grad");
  const DType moment_dtype = settings.moment_rounding ? DType::bf16 : DType::f32;
  require_dtype(exp_avg, moment_dtype, kOp, "exp_avg");
  check_elements(exp_avg, "exp_avg", grad.numel(), kOp);
  require_disjoint(exp_avg, "exp_avg", grad, "grad", kOp);
  if (update.defined()) {
    require_float(update, kOp, "update");
    check_elements(update, "update", grad.numel(), kOp);
    require_disjoint(update, "update", grad, "grad", kOp);
    require_disjoint(update, "update", exp_avg, "exp_avg", kOp);
  }
  require(0.0f <= settings.momentum && settings.momentum < 1.0f,
          "{}: momentum must be in [0, 1), but is {}", kOp, settings.momentum);
  const Device device = common_device(kOp, grad_scale, grad, exp_avg, update);
  dispatch<cpu::muon_momentum, cuda::muon_momentum, meta::muon_momentum>(
      device, settings, grad_scale, grad, exp_avg, update);
}

void muon_step(const MuonStep& settings, const Tensor& grad_scale, const Tensor& update,
               Tensor master, Tensor value) {
  const OpRange range("muon_step");
  constexpr const char* kOp = "muon_step";
  check_scale(grad_scale, kOp);
  require_float(update, kOp, "update");
  require_dtype(master, DType::f32, kOp, "master");
  require_dtype(value, update.dtype(), kOp, "value");
  check_elements(master, "master", update.numel(), kOp);
  check_elements(value, "value", update.numel(), kOp);
  require(!settings.rounding || value.dtype() == DType::bf16,
          "{}: only bf16 values are rounded stochastically, but value is {}", kOp, describe(value));
  require_disjoint(master, "master", update, "update", kOp);
  require_disjoint(value, "value", update, "update", kOp);
  require_same_or_disjoint(value, "value", master, "master", kOp);
  const Device device = common_device(kOp, grad_scale, update, master, value);
  dispatch<cpu::muon_step, cuda::muon_step, meta::muon_step>(device, settings, grad_scale, update,
                                                             master, value);
}

}  // namespace tessera
