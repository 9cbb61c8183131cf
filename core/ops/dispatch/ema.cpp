#include "core/ops/ema.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"
#include "core/ops/dispatch/optimizer_checks.h"

namespace tessera {
namespace {

void check_average(const Tensor& weight, const Tensor& ema, const char* op) {
  require_dtype(weight, DType::f32, op, "weight");
  require_dtype(ema, DType::f32, op, "ema");
  require(ema.numel() == weight.numel(), "{}: ema must have the {} elements of weight, but is {}",
          op, weight.numel(), describe(ema));
  require_disjoint(ema, "ema", weight, "weight", op);
}

}  // namespace

void ema_step(double decay, const Tensor& grad_scale, const Tensor& weight, Tensor ema) {
  const OpRange range("ema_step");
  constexpr const char* kOp = "ema_step";
  require_grad_scale(grad_scale, kOp);
  check_average(weight, ema, kOp);
  require_decay(decay, kOp, "decay");
  const Device device = common_device(kOp, grad_scale, weight, ema);
  dispatch<cpu::ema_step, cuda::ema_step, meta::ema_step>(device, decay, grad_scale, weight, ema);
}

void ema_swap(Tensor weight, Tensor ema) {
  const OpRange range("ema_swap");
  constexpr const char* kOp = "ema_swap";
  check_average(weight, ema, kOp);
  const Device device = common_device(kOp, weight, ema);
  dispatch<cpu::ema_swap, cuda::ema_swap, meta::ema_swap>(device, weight, ema);
}

}  // namespace tessera
