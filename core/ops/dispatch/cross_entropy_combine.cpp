#include <initializer_list>

#include "core/ops/cross_entropy.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

/// Throws unless each of `statistics` is (rows) fp32.
void require_statistics(std::initializer_list<const Tensor*> statistics, int64_t rows,
                        const char* op) {
  for (const Tensor* tensor : statistics) {
    require_shape(*tensor, {rows}, op, "a statistic");
    require_dtype(*tensor, DType::f32, op, "a statistic");
  }
}

}  // namespace

void rescale_sum_exp(const Tensor& row_max, const Tensor& global_max, Tensor row_sum) {
  constexpr const char* kOp = "rescale_sum_exp";
  const OpRange range(kOp);
  require_statistics({&row_max, &global_max, &row_sum}, row_max.numel(), kOp);
  const Device device = common_device(kOp, row_max, global_max, row_sum);
  dispatch<cpu::rescale_sum_exp, cuda::rescale_sum_exp, meta::rescale_sum_exp>(device, row_max,
                                                                               global_max, row_sum);
}

void cross_entropy_loss(const Tensor& global_max, const Tensor& sum_exp, const Tensor& target_logit,
                        const Tensor& targets, Tensor log_sum_exp, Tensor loss_sum) {
  constexpr const char* kOp = "cross_entropy_loss";
  const OpRange range(kOp);
  require_dtype(targets, DType::i32, kOp, "targets");
  require_dtype(loss_sum, DType::f64, kOp, "loss_sum");
  require_statistics({&global_max, &sum_exp, &target_logit, &log_sum_exp}, targets.numel(), kOp);
  const Device device =
      common_device(kOp, global_max, sum_exp, target_logit, targets, log_sum_exp, loss_sum);
  dispatch<cpu::cross_entropy_loss, cuda::cross_entropy_loss, meta::cross_entropy_loss>(
      device, global_max, sum_exp, target_logit, targets, log_sum_exp, loss_sum);
}

void cross_entropy_correct(const Tensor& global_max, const Tensor& target_logit,
                           const Tensor& targets, Tensor correct) {
  constexpr const char* kOp = "cross_entropy_correct";
  const OpRange range(kOp);
  require_statistics({&global_max, &target_logit}, targets.numel(), kOp);
  require_dtype(targets, DType::i32, kOp, "targets");
  require_shape(correct, {1}, kOp, "correct");
  require_dtype(correct, DType::f64, kOp, "correct");
  const Device device = common_device(kOp, global_max, target_logit, targets, correct);
  dispatch<cpu::cross_entropy_correct, cuda::cross_entropy_correct, meta::cross_entropy_correct>(
      device, global_max, target_logit, targets, correct);
}

}  // namespace tessera
