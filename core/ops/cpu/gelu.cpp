#include "core/ops/gelu.h"

#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

// With the logistic function σ, 0.5 (1 + tanh(u)) = σ(2u), and its complement is σ(2u) exp(−2u):
// neither suffers cancellation.
struct TanhGelu {
  static constexpr float kLinear = 1.59576912f;   // 2 sqrt(2/π)
  static constexpr float kCubic = 0.0713548162f;  // 2 sqrt(2/π) × 0.044715

  /// exp(−2u)
  static float decay(float x) { return vec::exp(-x * std::fma(kCubic, x * x, kLinear)); }
  static float value(float x) { return x / (1.0f + decay(x)); }
  static float slope(float x) {
    // Beyond this the result is flat to 1e-34, and e would overflow.
    const float magnitude = std::fabs(x);
    x = std::copysign(magnitude > 9.9f ? 9.9f : magnitude, x);
    const float e = vec::exp_within(-x * std::fma(kCubic, x * x, kLinear));
    const float w = 1.0f / (1.0f + e);
    return std::fma(x * (w * e) * w, std::fma(3.0f * kCubic, x * x, kLinear), w);
  }
};

struct ErfGelu {
  static constexpr float kInvSqrt2Pi = 0.398942280f;

  static float cdf(float x, float tail) { return x < 0.0f ? tail : 1.0f - tail; }
  static float value(float x) { return x * cdf(x, vec::normal_tail(std::fabs(x)).probability); }
  static float slope(float x) {
    const vec::NormalTail tail = vec::normal_tail(std::fabs(x));
    return std::fma(x * kInvSqrt2Pi, tail.bell, cdf(x, tail.probability));
  }
};

template <typename Kind, typename T>
void forward(const T* x, T* y, int64_t n) {
  const auto value = [=](int64_t i) { return Kind::value(to_float(x[i])); };
  map_blocks(n, y, value, x);
}

template <typename Kind, typename T>
void backward(const T* dy, const T* x, T* dx, int64_t n) {
  const auto value = [=](int64_t i) { return to_float(dy[i]) * Kind::slope(to_float(x[i])); };
  map_blocks(n, dx, value, dy, x);
}

/// Calls `body` with the class of `kind`.
template <typename Body>
void dispatch_gelu(Gelu kind, Body&& body) {
  switch (kind) {
    case Gelu::tanh:
      return body.template operator()<TanhGelu>();
    case Gelu::erf:
      return body.template operator()<ErfGelu>();
  }
}

}  // namespace

void gelu_forward(const Tensor& x, Gelu kind, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    dispatch_gelu(kind, [&]<typename Kind>() {
      const T* in = x.data<T>();
      T* out = y.data<T>();
      parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
        forward<Kind>(in + begin, out + begin, end - begin);
      });
    });
  });
}

void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor dx) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    dispatch_gelu(kind, [&]<typename Kind>() {
      const T *dout = dy.data<T>(), *in = x.data<T>();
      T* out = dx.data<T>();
      parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
        backward<Kind>(dout + begin, in + begin, out + begin, end - begin);
      });
    });
  });
}

}  // namespace tessera::cpu
