#include "core/ops/activation.h"

#include <algorithm>
#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

// With the logistic function σ, 0.5 (1 + tanh(u)) = σ(2u), and its complement is σ(2u) exp(−2u):
// neither suffers cancellation.
struct GeluTanh {
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

struct Gelu {
  static constexpr float kInvSqrt2Pi = 0.398942280f;

  static float cdf(float x, float tail) { return x < 0.0f ? tail : 1.0f - tail; }
  static float value(float x) { return x * cdf(x, vec::normal_tail(std::fabs(x)).probability); }
  static float slope(float x) {
    const vec::NormalTail tail = vec::normal_tail(std::fabs(x));
    return std::fma(x * kInvSqrt2Pi, tail.bell, cdf(x, tail.probability));
  }
};

struct Silu {
  /// Beyond this magnitude the results are flat to 1e-34, and exp(−x) would overflow.
  static float within(float x) {
    const float magnitude = std::fabs(x);
    return std::copysign(magnitude > 80.0f ? 80.0f : magnitude, x);
  }
  static float value(float x) { return x / (1.0f + vec::exp(-x)); }
  static float slope(float x) {
    x = within(x);
    const float e = vec::exp_within(-x);
    const float w = 1.0f / (1.0f + e);  // σ(x), and σ(−x) is w e
    return std::fma(x * (w * e), w, w);
  }
};

struct Relu {
  static float value(float x) { return x > 0.0f ? x : 0.0f; }
  static float slope(float x) { return x > 0.0f ? 1.0f : 0.0f; }
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

template <typename Kind, typename T>
void gated_forward(const T* gate, const T* up, T* y, int64_t n) {
  const auto value = [=](int64_t i) { return Kind::value(to_float(gate[i])) * to_float(up[i]); };
  map_blocks(n, y, value, gate, up);
}

// In pieces whose gradient of `up` waits in a buffer, because dgate and dup may overwrite gate and
// up, which both gradients need.
template <typename Kind, typename T>
void gated_backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t n) {
  constexpr int64_t kPiece = 512;
  T waiting[kPiece];
  for (int64_t first = 0; first < n; first += kPiece) {
    const int64_t count = std::min(kPiece, n - first);
    const T *dys = dy + first, *gates = gate + first, *ups = up + first;
    map_blocks(count, static_cast<T*>(waiting),
               [=](int64_t i) { return to_float(dys[i]) * Kind::value(to_float(gates[i])); });
    map_blocks(count, dgate + first, [=](int64_t i) {
      return to_float(dys[i]) * to_float(ups[i]) * Kind::slope(to_float(gates[i]));
    });
    std::copy_n(static_cast<const T*>(waiting), count, dup + first);
  }
}

/// Calls `body` with the class of `f`.
template <typename Body>
void dispatch_activation(Activation f, Body&& body) {
  switch (f) {
    case Activation::gelu:
      return body.template operator()<Gelu>();
    case Activation::gelu_tanh:
      return body.template operator()<GeluTanh>();
    case Activation::silu:
      return body.template operator()<Silu>();
    case Activation::relu:
      return body.template operator()<Relu>();
  }
}

/// Calls run(row) for each row, on several threads if the rows are worth it.
template <typename Run>
void for_each_row(int64_t rows, int64_t columns, const Run& run) {
  parallel_for(rows, grain_for(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) run(row);
  });
}

}  // namespace

void activation_forward(const Tensor& x, Activation f, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    dispatch_activation(f, [&]<typename Kind>() {
      const T* in = x.data<T>();
      T* out = y.data<T>();
      parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
        forward<Kind>(in + begin, out + begin, end - begin);
      });
    });
  });
}

void activation_backward(const Tensor& dy, const Tensor& x, Activation f, Tensor dx) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    dispatch_activation(f, [&]<typename Kind>() {
      const T *dout = dy.data<T>(), *in = x.data<T>();
      T* out = dx.data<T>();
      parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
        backward<Kind>(dout + begin, in + begin, out + begin, end - begin);
      });
    });
  });
}

void gated_activation_forward(const Tensor& gate_up, Activation f, Tensor y) {
  const int64_t columns = y.dim(-1), rows = rows_of(y);
  dispatch_float(y.dtype(), [&]<typename T>() {
    dispatch_activation(f, [&]<typename Kind>() {
      const T* in = gate_up.data<T>();
      T* out = y.data<T>();
      for_each_row(rows, columns, [=](int64_t row) {
        const T* gate = in + 2 * row * columns;
        gated_forward<Kind>(gate, gate + columns, out + row * columns, columns);
      });
    });
  });
}

void gated_activation_backward(const Tensor& dy, const Tensor& gate_up, Activation f,
                               Tensor dgate_up) {
  const int64_t columns = dy.dim(-1), rows = rows_of(dy);
  dispatch_float(dy.dtype(), [&]<typename T>() {
    dispatch_activation(f, [&]<typename Kind>() {
      const T *dout = dy.data<T>(), *in = gate_up.data<T>();
      T* out = dgate_up.data<T>();
      for_each_row(rows, columns, [=](int64_t row) {
        const int64_t at = 2 * row * columns;
        gated_backward<Kind>(dout + row * columns, in + at, in + at + columns, out + at,
                             out + at + columns, columns);
      });
    });
  });
}

}  // namespace tessera::cpu
