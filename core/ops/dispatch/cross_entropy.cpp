#include "core/ops/cross_entropy.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void require_logits(const Tensor& logits, const Tensor& targets, int64_t first, int64_t valid,
                    const char* op) {
  require_float(logits, op, "logits");
  require(logits.shape().rank() == 2, "{}: logits must have shape (N, Vl), but is {}", op,
          describe(logits));
  require_shape(targets, {logits.dim(0)}, op, "targets");
  require_dtype(targets, DType::i32, op, "targets");
  require(first >= 0, "{}: first must not be negative, but is {}", op, first);
  require(0 <= valid && valid <= logits.dim(1),
          "{}: valid must be within the {} columns of logits, but is {}", op, logits.dim(1), valid);
}

void require_row_values(const Tensor& tensor, const Tensor& logits, const char* op,
                        const char* name) {
  require_shape(tensor, {logits.dim(0)}, op, name);
  require_dtype(tensor, DType::f32, op, name);
}

void require_statistics(const Tensor& row_max, const Tensor& row_sum, const Tensor& target_logit,
                        const Tensor& logits, const char* op) {
  require_row_values(row_max, logits, op, "row_max");
  require_row_values(row_sum, logits, op, "row_sum");
  require_row_values(target_logit, logits, op, "target_logit");
}

void require_scale(const Scalar& scale, const char* op) {
  if (!scale.tensor.defined()) return;
  require_shape(scale.tensor, {1}, op, "scale");
  require_dtype(scale.tensor, DType::f32, op, "scale");
}

}  // namespace

void cross_entropy_statistics(const Tensor& logits, const Tensor& targets, int64_t first,
                              int64_t valid, Tensor row_max, Tensor row_sum, Tensor target_logit) {
  const OpRange range("cross_entropy_statistics");
  constexpr const char* kOp = "cross_entropy_statistics";
  require_logits(logits, targets, first, valid, kOp);
  require_statistics(row_max, row_sum, target_logit, logits, kOp);
  const Device device = common_device(kOp, logits, targets, row_max, row_sum, target_logit);
  dispatch<cpu::cross_entropy_statistics, cuda::cross_entropy_statistics,
           meta::cross_entropy_statistics>(device, logits, targets, first, valid, row_max, row_sum,
                                           target_logit);
}

void cross_entropy_gradient(Tensor logits, const Tensor& targets, int64_t first, int64_t valid,
                            const Tensor& log_sum_exp, const Scalar& scale) {
  const OpRange range("cross_entropy_gradient");
  constexpr const char* kOp = "cross_entropy_gradient";
  require_logits(logits, targets, first, valid, kOp);
  require_row_values(log_sum_exp, logits, kOp, "log_sum_exp");
  require_scale(scale, kOp);
  const Device device = common_device(kOp, logits, targets, log_sum_exp, scale.tensor);
  dispatch<cpu::cross_entropy_gradient, cuda::cross_entropy_gradient, meta::cross_entropy_gradient>(
      device, logits, targets, first, valid, log_sum_exp, scale);
}

void cross_entropy_with_gradient(Tensor logits, const Tensor& targets, int64_t valid,
                                 const Scalar& scale, Tensor row_max, Tensor row_sum,
                                 Tensor target_logit) {
  const OpRange range("cross_entropy_with_gradient");
  constexpr const char* kOp = "cross_entropy_with_gradient";
  require_logits(logits, targets, 0, valid, kOp);
  require_statistics(row_max, row_sum, target_logit, logits, kOp);
  require_scale(scale, kOp);
  const Device device =
      common_device(kOp, logits, targets, scale.tensor, row_max, row_sum, target_logit);
  dispatch<cpu::cross_entropy_with_gradient, cuda::cross_entropy_with_gradient,
           meta::cross_entropy_with_gradient>(device, logits, targets, valid, scale, row_max,
                                              row_sum, target_logit);
}

}  // namespace tessera
