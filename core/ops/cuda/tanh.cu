#include "core/cuda/map.h"
#include "core/ops/device_ops.h"
#include "core/ops/tanh.h"

namespace tessera::cuda {
namespace {

struct TanhForward {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct TanhBackward {
  __device__ float operator()(float dy, float y) const { return dy * (1.0f - y * y); }
};

}  // namespace

void tanh_forward(const Tensor& x, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    map("tanh_forward", x.numel(), TanhForward{}, y.data<T>(), x.data<T>());
  });
}

void tanh_backward(const Tensor& dy, const Tensor& y, Tensor dx) {
  dispatch_float(y.dtype(), [&]<typename T>() {
    map("tanh_backward", y.numel(), TanhBackward{}, dx.data<T>(), dy.data<T>(), y.data<T>());
  });
}

}  // namespace tessera::cuda
