#include "core/ops/tanh.h"

#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

// Only poolers use tanh, on one row per document, so the scalar library function is fast enough.
namespace tessera::cpu {

void tanh_forward(const Tensor& x, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* in = x.data<T>();
    T* out = y.data<T>();
    parallel_for(x.numel(), kGrain / 16, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = from_float<T>(std::tanh(to_float(in[i])));
    });
  });
}

void tanh_backward(const Tensor& dy, const Tensor& y, Tensor dx) {
  dispatch_float(y.dtype(), [&]<typename T>() {
    const T *gradient = dy.data<T>(), *value = y.data<T>();
    T* out = dx.data<T>();
    parallel_for(y.numel(), kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const float t = to_float(value[i]);
        out[i] = from_float<T>(to_float(gradient[i]) * (1.0f - t * t));
      }
    });
  });
}

}  // namespace tessera::cpu
