#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void muon_momentum(const MuonMomentum& /*settings*/, const Tensor& grad_scale, const Tensor& grad,
                   Tensor exp_avg, Tensor update) {
  log_work({.flops = 7.0 * elements_of(grad),
            .bytes_read = bytes_of(grad_scale, grad, exp_avg),
            .bytes_written = bytes_of(exp_avg, update)});
}

// An fp32 value is the master itself.
void muon_step(const MuonStep& /*settings*/, const Tensor& grad_scale, const Tensor& update,
               Tensor master, Tensor value) {
  const bool rounds = value.dtype() != DType::f32;
  log_work({.flops = 3.0 * elements_of(master),
            .bytes_read = bytes_of(grad_scale, update, master),
            .bytes_written = bytes_of(master) + (rounds ? bytes_of(value) : 0.0)});
}

}  // namespace tessera::meta
