#include "core/cuda/map.h"
#include "core/ops/activation.h"
#include "core/ops/device_ops.h"

// Bandwidth in bf16 leaves time for some thirty instructions per element. Hence approximate
// reciprocals (2 ulp) for quotients, and a polynomial instead of erff.
namespace tessera::cuda {
namespace {

// With the logistic function σ, 0.5 (1 + tanh(u)) = σ(2u), and its complement is σ(2u) exp(−2u):
// neither suffers cancellation.
struct GeluTanh {
  static constexpr float kLinear = 1.59576912f;   // 2 sqrt(2/π)
  static constexpr float kCubic = 0.0713548162f;  // 2 sqrt(2/π) × 0.044715

  /// exp(−2u)
  static __device__ float decay(float x) { return expf(-x * fmaf(kCubic, x * x, kLinear)); }
  static __device__ float value(float x) { return __fdividef(x, 1.0f + decay(x)); }
  static __device__ float slope(float x) {
    x = fabsf(x) > 9.9f ? copysignf(9.9f, x) : x;  // beyond, flat to 1e-34; e would overflow
    const float e = decay(x);
    const float w = __fdividef(1.0f, 1.0f + e);
    return fmaf(x * (w * e) * w, fmaf(3.0f * kCubic, x * x, kLinear), w);
  }
};

struct NormalTail {
  float probability;  ///< Φ(−x)
  float bell;         ///< exp(−x²/2)
};

/// Like cpu::vec::normal_tail, for x ≥ 0: the bell times a polynomial, so nothing cancels.
__device__ NormalTail normal_tail(float x) {
  x = x > 14.5f ? 14.5f : x;  // both are zero from here on
  const float square = x * x;
  const float rest = fmaf(x, x, -square);  // the rounding error of the square
  const float top = expf(-0.5f * square);
  const float bell = fmaf(top, -0.5f * rest, top);
  const float kx = 0.4f * x;
  const float w = __fdividef(kx, 1.0f + kx);
  float p = -0.0319045112f;
  p = fmaf(p, w, 0.112007909f);
  p = fmaf(p, w, -0.125858337f);
  p = fmaf(p, w, 0.0559881963f);
  p = fmaf(p, w, -0.0605143905f);
  p = fmaf(p, w, 0.0226826929f);
  p = fmaf(p, w, 0.116681404f);
  p = fmaf(p, w, 0.0678512007f);
  p = fmaf(p, w, -0.497357368f);
  p = fmaf(p, w, 0.5f);
  return {bell * fmaf(-w, p, p), bell};
}

struct Gelu {
  static constexpr float kInvSqrt2Pi = 0.398942280f;

  static __device__ float cdf(float x, float tail) { return x < 0.0f ? tail : 1.0f - tail; }
  static __device__ float value(float x) { return x * cdf(x, normal_tail(fabsf(x)).probability); }
  static __device__ float slope(float x) {
    const NormalTail tail = normal_tail(fabsf(x));
    return fmaf(x * kInvSqrt2Pi, tail.bell, cdf(x, tail.probability));
  }
};

struct Silu {
  static __device__ float value(float x) { return __fdividef(x, 1.0f + expf(-x)); }
  static __device__ float slope(float x) {
    x = fabsf(x) > 80.0f ? copysignf(80.0f, x) : x;  // beyond, flat to 1e-34; e would overflow
    const float e = expf(-x);
    const float w = __fdividef(1.0f, 1.0f + e);  // σ(x), and σ(−x) is w e
    return fmaf(x * (w * e), w, w);
  }
};

struct Relu {
  static __device__ float value(float x) { return x > 0.0f ? x : 0.0f; }
  static __device__ float slope(float x) { return x > 0.0f ? 1.0f : 0.0f; }
};

template <typename Kind>
struct Forward {
  __device__ float operator()(float x) const { return Kind::value(x); }
};
template <typename Kind>
struct Backward {
  __device__ float operator()(float dy, float x) const { return dy * Kind::slope(x); }
};

/// The gate's and up's columns of a row of gate_up (rows, 2 F).
template <typename Kind, typename T>
struct GatedForward {
  const T* gate_up;
  T* y;
  int64_t columns;  ///< F

  template <int N>
  __device__ void operator()(int64_t row, int64_t column) const {
    const T* gate = gate_up + 2 * row * columns + column;
    const Floats<N> g = load_floats<N>(gate), u = load_floats<N>(gate + columns);
    Floats<N> result;
    for (int i = 0; i < N; ++i) result.at[i] = Kind::value(g.at[i]) * u.at[i];
    store_floats(result, y + row * columns + column);
  }
};
template <typename Kind, typename T>
struct GatedBackward {
  const T *dy, *gate_up;
  T* dgate_up;
  int64_t columns;  ///< F

  template <int N>
  __device__ void operator()(int64_t row, int64_t column) const {
    const int64_t at = 2 * row * columns + column;
    const Floats<N> d = load_floats<N>(dy + row * columns + column);
    const Floats<N> g = load_floats<N>(gate_up + at), u = load_floats<N>(gate_up + at + columns);
    Floats<N> dgate, dup;
    for (int i = 0; i < N; ++i) {
      dgate.at[i] = d.at[i] * u.at[i] * Kind::slope(g.at[i]);
      dup.at[i] = d.at[i] * Kind::value(g.at[i]);
    }
    store_floats(dgate, dgate_up + at);
    store_floats(dup, dgate_up + at + columns);
  }
};

constexpr int kGatedThreads = 256;

/// A block runs `function` on 256 packs of a row; blockIdx.x is the row, so no index is divided.
template <int N, typename Function>
__global__ void gated_kernel(Function function) {
  const int64_t pack = static_cast<int64_t>(blockIdx.y) * kGatedThreads + threadIdx.x;
  if (pack * N < function.columns) function.template operator()<N>(blockIdx.x, pack * N);
}

template <typename T, typename Function, typename... Pointers>
void run_gated(const char* name, int64_t rows, const Function& function, const Pointers*... all) {
  constexpr int N = kPackSize<T>;
  const bool packs = function.columns % N == 0 && (takes_packs<N>(all) && ...);
  const int64_t per_row = packs ? function.columns / N : function.columns;
  const auto chunks = static_cast<unsigned>(ceil_div(per_row, kGatedThreads));
  launch(name, {dim3(static_cast<unsigned>(rows), chunks), dim3(kGatedThreads)},
         packs ? gated_kernel<N, Function> : gated_kernel<1, Function>, function);
}

/// Calls `run` with the function of `f`.
template <template <typename> typename Function, typename Run>
void dispatch_activation(Activation f, Run&& run) {
  switch (f) {
    case Activation::gelu:
      return run(Function<Gelu>{});
    case Activation::gelu_tanh:
      return run(Function<GeluTanh>{});
    case Activation::silu:
      return run(Function<Silu>{});
    case Activation::relu:
      return run(Function<Relu>{});
  }
}

template <typename Kind>
struct Name {
  using Function = Kind;
};

}  // namespace

void activation_forward(const Tensor& x, Activation f, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    const auto run = [&](auto function) {
      map("activation_forward", x.numel(), function, y.data<T>(), x.data<T>());
    };
    dispatch_activation<Forward>(f, run);
  });
}

void activation_backward(const Tensor& dy, const Tensor& x, Activation f, Tensor dx) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    const auto run = [&](auto function) {
      map("activation_backward", x.numel(), function, dx.data<T>(), dy.data<T>(), x.data<T>());
    };
    dispatch_activation<Backward>(f, run);
  });
}

void gated_activation_forward(const Tensor& gate_up, Activation f, Tensor y) {
  if (y.numel() == 0) return;
  dispatch_float(y.dtype(), [&]<typename T>() {
    const auto run = [&]<typename Kind>(Name<Kind>) {
      const T* in = gate_up.data<T>();
      T* out = y.data<T>();
      run_gated<T>("gated_activation_forward", rows_of(y),
                   GatedForward<Kind, T>{in, out, y.dim(-1)}, in, out);
    };
    dispatch_activation<Name>(f, run);
  });
}

void gated_activation_backward(const Tensor& dy, const Tensor& gate_up, Activation f,
                               Tensor dgate_up) {
  if (dy.numel() == 0) return;
  dispatch_float(dy.dtype(), [&]<typename T>() {
    const auto run = [&]<typename Kind>(Name<Kind>) {
      const T *dout = dy.data<T>(), *in = gate_up.data<T>();
      T* out = dgate_up.data<T>();
      run_gated<T>("gated_activation_backward", rows_of(dy),
                   GatedBackward<Kind, T>{dout, in, out, dy.dim(-1)}, dout, in, out);
    };
    dispatch_activation<Name>(f, run);
  });
}

}  // namespace tessera::cuda
