#include "core/cuda/map.h"
#include "core/cuda/rows.h"
#include "core/ops/device_ops.h"
#include "core/ops/value_loss.h"

// A few numbers per document: one block adds them, in an order that depends only on their number.
namespace tessera::cuda {
namespace {

/// As on the CPU.
__device__ double loss_of(ValueLoss loss, double x, double t) {
  if (loss == ValueLoss::mse) return (x - t) * (x - t);
  return (x > 0.0 ? x : 0.0) - x * t + log1p(exp(-fabs(x)));
}

template <typename T>
__global__ void value_loss_kernel(const T* logits, const float* targets, ValueLoss loss, int64_t n,
                                  double columns, double* loss_sum) {
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    sum += loss_of(loss, static_cast<double>(to_float(logits[i])), static_cast<double>(targets[i]));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss_sum += sum / columns;
}

struct Slope {
  ValueLoss loss;
  float columns, told_scale;
  const float* scale_at;

  __device__ float operator()(float x, float t) const {
    const float factor = (scale_at == nullptr ? told_scale : *scale_at) / columns;
    const float slope = loss == ValueLoss::mse ? 2.0f * (x - t) : 1.0f / (1.0f + expf(-x)) - t;
    return factor * slope;
  }
};

}  // namespace

void value_loss(const Tensor& logits, const Tensor& targets, ValueLoss loss, Tensor loss_sum) {
  dispatch_float(logits.dtype(), [&]<typename T>() {
    launch("value_loss", one_block(logits.numel()), value_loss_kernel<T>, logits.data<T>(),
           targets.data<float>(), loss, logits.numel(), static_cast<double>(logits.dim(1)),
           loss_sum.data<double>());
  });
}

void value_loss_gradient(Tensor logits, const Tensor& targets, ValueLoss loss,
                         const Scalar& scale) {
  const float* scale_at = scale.tensor.defined() ? scale.tensor.data<float>() : nullptr;
  const Slope slope{loss, static_cast<float>(logits.dim(1)), scale.value, scale_at};
  dispatch_float(logits.dtype(), [&]<typename T>() {
    map("value_loss_gradient", logits.numel(), slope, logits.data<T>(), logits.data<T>(),
        targets.data<float>());
  });
}

}  // namespace tessera::cuda
