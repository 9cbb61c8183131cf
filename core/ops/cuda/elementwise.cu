#include "core/cuda/map.h"
#include "core/cuda/runtime.h"
#include "core/ops/device_ops.h"
#include "core/ops/elementwise.h"

namespace tessera::cuda {
namespace {

struct Identity {
  __device__ float operator()(float x) const { return x; }
};
struct Product {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct ScaledSum {
  float a, b;
  __device__ float operator()(float x, float y) const { return fmaf(a, x, b * y); }
};
struct UnitNorm {
  const double* squares;
  float eps;
  __device__ float operator()(float x) const {
    return static_cast<float>(1.0 / (sqrt(*squares) + static_cast<double>(eps))) * x;
  }
};

template <int N, typename T>
__global__ void fill_kernel(T* out, int64_t n, T value) {
  Pack<T, N> pack;
  for (int i = 0; i < N; ++i) pack.at[i] = value;
  const int64_t packs = n / N;
  for (int64_t i = global_thread(); i < packs; i += global_threads()) store(pack, out + i * N);
  for (int64_t i = packs * N + global_thread(); i < n; i += global_threads()) out[i] = value;
}

template <typename T>
void fill_with(const Tensor& tensor, T value) {
  constexpr int kPack = kPackSize<T>;
  T* out = tensor.data<T>();
  const int64_t n = tensor.numel();
  if (takes_packs<kPack>(out)) {
    launch("fill", one_dimensional(ceil_div(n, kPack), kBlockThreads), fill_kernel<kPack, T>, out,
           n, value);
  } else {
    launch("fill", one_dimensional(n, kBlockThreads), fill_kernel<1, T>, out, n, value);
  }
}

template <typename From, typename To>
void convert(const Tensor& source, const Tensor& destination) {
  map("copy", source.numel(), Identity{}, destination.data<To>(), source.data<From>());
}

}  // namespace

void fill(Tensor tensor, double value) {
  if (tensor.numel() == 0) return;
  if (value == 0.0) {
    check(cudaMemsetAsync(tensor.raw(), 0, tensor.bytes(), stream()), "fill");
    return;
  }
  dispatch_value(tensor.dtype(), value, [&](auto element) { fill_with(tensor, element); });
}

void copy(const Tensor& source, Tensor destination) {
  if (source.dtype() != destination.dtype()) {
    if (source.dtype() == DType::f32) return convert<float, bfloat16>(source, destination);
    return convert<bfloat16, float>(source, destination);
  }
  if (source.raw() == destination.raw() || source.bytes() == 0) return;
  // A copy to pageable memory waits inside the driver, where no WaitCheck runs.
  if (destination.device().is_cpu()) synchronize();
  check(
      cudaMemcpyAsync(destination.raw(), source.raw(), source.bytes(), cudaMemcpyDefault, stream()),
      "copy");
  if (destination.device().is_cpu()) synchronize();
}

void add(const Tensor& a, const Tensor& b, Tensor out) {
  dispatch_float(a.dtype(), [&]<typename T>() {
    map("add", a.numel(), Sum{}, out.data<T>(), a.data<T>(), b.data<T>());
  });
}

void scale(const Tensor& x, float factor, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    map("scale", x.numel(), Product{factor}, y.data<T>(), x.data<T>());
  });
}

void add_scaled(float a, const Tensor& x, float b, const Tensor& y, Tensor out) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    map("add_scaled", x.numel(), ScaledSum{a, b}, out.data<T>(), x.data<T>(), y.data<T>());
  });
}

void scale_to_unit_norm(const Tensor& x, const Tensor& squares, float eps, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    map("scale_to_unit_norm", x.numel(), UnitNorm{squares.data<double>(), eps}, y.data<T>(),
        x.data<T>());
  });
}

}  // namespace tessera::cuda
