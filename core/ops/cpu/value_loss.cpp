#include "core/ops/value_loss.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

// A few numbers per document, so one thread and the scalar library functions are fast enough.
namespace tessera::cpu {
namespace {

/// In double, because the sum is. log(1 + exp(−|x|)) neither overflows nor cancels.
double loss_of(ValueLoss loss, double x, double t) {
  if (loss == ValueLoss::mse) return (x - t) * (x - t);
  return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::fabs(x)));
}

float slope_of(ValueLoss loss, float x, float t) {
  if (loss == ValueLoss::mse) return 2.0f * (x - t);
  return 1.0f / (1.0f + std::exp(-x)) - t;
}

}  // namespace

void value_loss(const Tensor& logits, const Tensor& targets, ValueLoss loss, Tensor loss_sum) {
  const auto target = targets.span<float>();
  double sum = 0.0;
  dispatch_float(logits.dtype(), [&]<typename T>() {
    const T* x = logits.data<T>();
    for (size_t i = 0; i < target.size(); ++i) {
      sum += loss_of(loss, static_cast<double>(to_float(x[i])), static_cast<double>(target[i]));
    }
  });
  loss_sum.data<double>()[0] += sum / static_cast<double>(logits.dim(1));
}

void value_loss_gradient(Tensor logits, const Tensor& targets, ValueLoss loss,
                         const Scalar& scale) {
  const float factor = scale.host_value() / static_cast<float>(logits.dim(1));
  const auto target = targets.span<float>();
  dispatch_float(logits.dtype(), [&]<typename T>() {
    T* x = logits.data<T>();
    for (size_t i = 0; i < target.size(); ++i) {
      x[i] = from_float<T>(factor * slope_of(loss, to_float(x[i]), target[i]));
    }
  });
}

}  // namespace tessera::cpu
