#include "core/cuda/rows.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/device_ops.h"

// A few numbers per row, between two collectives: one block adds them, in an order that depends
// only on the number of rows.
namespace tessera::cuda {
namespace {

__global__ void rescale_kernel(const float* row_max, const float* global_max, float* row_sum,
                               int64_t rows) {
  for (int64_t n = global_thread(); n < rows; n += global_threads()) {
    // A rank without vocabulary rows has maximum −inf and sum 0.
    if (row_sum[n] != 0.0f) row_sum[n] *= expf(row_max[n] - global_max[n]);
  }
}

/// log_sum_exp may alias global_max.
__global__ void loss_kernel(const float* global_max, const float* sum_exp,
                            const float* target_logit, const int32_t* targets, int64_t rows,
                            float* log_sum_exp, double* loss_sum) {
  double total = 0.0;
  for (int64_t n = threadIdx.x; n < rows; n += blockDim.x) {
    const float lse = global_max[n] + logf(sum_exp[n]);
    log_sum_exp[n] = lse;
    if (targets[n] != kIgnoreTarget) {
      total += static_cast<double>(lse) - static_cast<double>(target_logit[n]);
    }
  }
  total = block_sum(total);
  if (threadIdx.x == 0) *loss_sum += total;
}

__global__ void correct_kernel(const float* global_max, const float* target_logit,
                               const int32_t* targets, int64_t rows, double* correct) {
  int count = 0;
  for (int64_t n = threadIdx.x; n < rows; n += blockDim.x) {
    const bool likeliest = target_logit[n] >= global_max[n];
    if (targets[n] != kIgnoreTarget && likeliest) ++count;
  }
  count = block_sum(count);
  if (threadIdx.x == 0) *correct += count;
}

}  // namespace

void rescale_sum_exp(const Tensor& row_max, const Tensor& global_max, Tensor row_sum) {
  launch("rescale_sum_exp", one_dimensional(row_sum.numel(), kBlockThreads), rescale_kernel,
         row_max.data<float>(), global_max.data<float>(), row_sum.data<float>(), row_sum.numel());
}

void cross_entropy_loss(const Tensor& global_max, const Tensor& sum_exp, const Tensor& target_logit,
                        const Tensor& targets, Tensor log_sum_exp, Tensor loss_sum) {
  const int64_t rows = targets.numel();
  launch("cross_entropy_loss", one_block(rows), loss_kernel, global_max.data<float>(),
         sum_exp.data<float>(), target_logit.data<float>(), targets.data<int32_t>(), rows,
         log_sum_exp.data<float>(), loss_sum.data<double>());
}

void cross_entropy_correct(const Tensor& global_max, const Tensor& target_logit,
                           const Tensor& targets, Tensor correct) {
  const int64_t rows = targets.numel();
  launch("cross_entropy_correct", one_block(rows), correct_kernel, global_max.data<float>(),
         target_logit.data<float>(), targets.data<int32_t>(), rows, correct.data<double>());
}

}  // namespace tessera::cuda
