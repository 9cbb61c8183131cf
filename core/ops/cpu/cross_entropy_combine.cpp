#include <cmath>

#include "core/ops/cross_entropy.h"
#include "core/ops/device_ops.h"

// A few numbers per row, between two collectives: one thread is enough.
namespace tessera::cpu {

void rescale_sum_exp(const Tensor& row_max, const Tensor& global_max, Tensor row_sum) {
  const float* local = row_max.data<float>();
  const float* global = global_max.data<float>();
  float* sum = row_sum.data<float>();
  for (int64_t n = 0; n < row_sum.numel(); ++n) {
    // A rank without vocabulary rows has maximum −inf and sum 0.
    if (sum[n] != 0.0f) sum[n] *= std::exp(local[n] - global[n]);
  }
}

void cross_entropy_loss(const Tensor& global_max, const Tensor& sum_exp, const Tensor& target_logit,
                        const Tensor& targets, Tensor log_sum_exp, Tensor loss_sum) {
  double total = 0.0;
  for (int64_t n = 0; n < targets.numel(); ++n) {
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
  int64_t count = 0;
  for (int64_t n = 0; n < targets.numel(); ++n) {
    const bool likeliest = target_logit.data<float>()[n] >= global_max.data<float>()[n];
    if (targets.data<int32_t>()[n] != kIgnoreTarget && likeliest) ++count;
  }
  correct.data<double>()[0] += static_cast<double>(count);
}

}  // namespace tessera::cpu
