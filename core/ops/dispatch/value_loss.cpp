#include "core/ops/value_loss.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void require_values(const Tensor& logits, const Tensor& targets, const char* op) {
  require_float(logits, op, "logits");
  require(logits.shape().rank() == 2 && logits.dim(1) >= 1,
          "{}: logits must have shape (N, K), but is {}", op, describe(logits));
  require_shape(targets, logits.shape(), op, "targets");
  require_dtype(targets, DType::f32, op, "targets");
}

}  // namespace

void value_loss(const Tensor& logits, const Tensor& targets, ValueLoss loss, Tensor loss_sum) {
  constexpr const char* kOp = "value_loss";
  const OpRange range(kOp);
  require_values(logits, targets, kOp);
  require_shape(loss_sum, {1}, kOp, "loss_sum");
  require_dtype(loss_sum, DType::f64, kOp, "loss_sum");
  const Device device = common_device(kOp, logits, targets, loss_sum);
  dispatch<cpu::value_loss, cuda::value_loss, meta::value_loss>(device, logits, targets, loss,
                                                                loss_sum);
}

void value_loss_gradient(Tensor logits, const Tensor& targets, ValueLoss loss,
                         const Scalar& scale) {
  constexpr const char* kOp = "value_loss_gradient";
  const OpRange range(kOp);
  require_values(logits, targets, kOp);
  require_disjoint(logits, "logits", targets, "targets", kOp);
  if (scale.tensor.defined()) {
    require_shape(scale.tensor, {1}, kOp, "scale");
    require_dtype(scale.tensor, DType::f32, kOp, "scale");
  }
  const Device device = common_device(kOp, logits, targets, scale.tensor);
  dispatch<cpu::value_loss_gradient, cuda::value_loss_gradient, meta::value_loss_gradient>(
      device, logits, targets, loss, scale);
}

}  // namespace tessera
