#include <cmath>

#include "core/ops/cross_entropy.h"

// A few numbers a row, between two collectives: one thread is enough.
namespace tessera {

void rescale_sum_exp(const Tensor& row_max, const Tensor& global_max, Tensor row_sum) {
  constexpr const char* kOp = "rescale_sum_exp";
  for (const Tensor* tensor : {&row_max, &global_max, static_cast<const Tensor*>(&row_sum)}) {
    require_shape(*tensor, {row_max.numel()}, kOp, "a statistic");
    require_dtype(*tensor, DType::f32, kOp, "a statistic");
  }
  if (row_sum.device().is_meta()) return;
  const float* local = row_max.data<float>();
  const float* global = global_max.data<float>();
  float* sum = row_sum.data<float>();
  for (int64_t n = 0; n < row_sum.numel(); ++n) {
    // A rank without words has −inf as its maximum, and an empty sum.
    if (sum[n] != 0.0f) sum[n] *= std::exp(local[n] - global[n]);
  }
}

void cross_entropy_loss(const Tensor& global_max, const Tensor& sum_exp, const Tensor& target_logit,
                        const Tensor& targets, Tensor log_sum_exp, Tensor loss_sum) {
  constexpr const char* kOp = "cross_entropy_loss";
  const int64_t rows = targets.numel();
  require_dtype(targets, DType::i32, kOp, "targets");
  require_dtype(loss_sum, DType::f64, kOp, "loss_sum");
  for (const Tensor* tensor :
       {&global_max, &sum_exp, &target_logit, static_cast<const Tensor*>(&log_sum_exp)}) {
    require_shape(*tensor, {rows}, kOp, "a statistic");
    require_dtype(*tensor, DType::f32, kOp, "a statistic");
  }
  if (log_sum_exp.device().is_meta()) return;
  double total = 0.0;
  for (int64_t n = 0; n < rows; ++n) {
    const float lse = global_max.data<float>()[n] + std::log(sum_exp.data<float>()[n]);
    log_sum_exp.data<float>()[n] = lse;
    if (targets.data<int32_t>()[n] != kIgnoreTarget) {
      total += static_cast<double>(lse) - static_cast<double>(target_logit.data<float>()[n]);
    }
  }
  loss_sum.data<double>()[0] += total;
}

void cross_entropy_correct(const Tensor& global_max, const Tensor& target_logit,
                           const Tensor& targets, Tensor correct) {
  constexpr const char* kOp = "cross_entropy_correct";
  for (const Tensor* tensor : {&global_max, &target_logit}) {
    require_shape(*tensor, {targets.numel()}, kOp, "a statistic");
    require_dtype(*tensor, DType::f32, kOp, "a statistic");
  }
  require_dtype(targets, DType::i32, kOp, "targets");
  require_shape(correct, {1}, kOp, "correct");
  require_dtype(correct, DType::f64, kOp, "correct");
  if (global_max.device().is_meta()) return;
  int64_t count = 0;
  for (int64_t n = 0; n < targets.numel(); ++n) {
    const bool likeliest = target_logit.data<float>()[n] >= global_max.data<float>()[n];
    if (targets.data<int32_t>()[n] != kIgnoreTarget && likeliest) ++count;
  }
  correct.data<double>()[0] += static_cast<double>(count);
}

}  // namespace tessera
