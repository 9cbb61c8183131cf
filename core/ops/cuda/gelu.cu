#include "core/cuda/map.h"
#include "core/ops/device_ops.h"
#include "core/ops/gelu.h"

// Bandwidth in bf16 leaves time for some thirty instructions per element. Hence approximate
// reciprocals (2 ulp) for quotients, and a polynomial instead of erff.
namespace tessera::cuda {
namespace {

// With the logistic function σ, 0.5 (1 + tanh(u)) = σ(2u), and its complement is σ(2u) exp(−2u):
// neither suffers cancellation.
struct TanhGelu {
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

struct ErfGelu {
  static constexpr float kInvSqrt2Pi = 0.398942280f;

  static __device__ float cdf(float x, float tail) { return x < 0.0f ? tail : 1.0f - tail; }
  static __device__ float value(float x) { return x * cdf(x, normal_tail(fabsf(x)).probability); }
  static __device__ float slope(float x) {
    const NormalTail tail = normal_tail(fabsf(x));
    return fmaf(x * kInvSqrt2Pi, tail.bell, cdf(x, tail.probability));
  }
};

template <typename Kind>
struct Forward {
  __device__ float operator()(float x) const { return Kind::value(x); }
};
template <typename Kind>
struct Backward {
  __device__ float operator()(float dy, float x) const { return dy * Kind::slope(x); }
};

/// Calls `run` with the function of `kind`.
template <template <typename> typename Function, typename Run>
void dispatch_gelu(Gelu kind, Run&& run) {
  switch (kind) {
    case Gelu::tanh:
      return run(Function<TanhGelu>{});
    case Gelu::erf:
      return run(Function<ErfGelu>{});
  }
}

}  // namespace

void gelu_forward(const Tensor& x, Gelu kind, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    const auto run = [&](auto function) {
      map("gelu_forward", x.numel(), function, y.data<T>(), x.data<T>());
    };
    dispatch_gelu<Forward>(kind, run);
  });
}

void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor dx) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    const auto run = [&](auto function) {
      map("gelu_backward", x.numel(), function, dx.data<T>(), dy.data<T>(), x.data<T>());
    };
    dispatch_gelu<Backward>(kind, run);
  });
}

}  // namespace tessera::cuda
