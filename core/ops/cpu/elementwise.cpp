#include "core/ops/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/streams.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {
namespace {

template <typename T>
void fill_with(const Tensor& tensor, T value) {
  T* out = tensor.data<T>();
  parallel_for(tensor.numel(), kGrain,
               [=](int64_t begin, int64_t end) { std::fill(out + begin, out + end, value); });
}

template <typename From, typename To>
void convert(const From* in, To* out, int64_t n) {
  const auto block = [=](int64_t first, auto count) {
#pragma omp simd
    for (int64_t i = first; i < first + count; ++i) out[i] = from_float<To>(to_float(in[i]));
  };
  for_each_block(n, block, in, out);
}

template <typename From, typename To>
void copy_converted(const Tensor& source, const Tensor& destination) {
  const From* in = source.data<From>();
  To* out = destination.data<To>();
  parallel_for(source.numel(), kGrain,
               [=](int64_t begin, int64_t end) { convert(in + begin, out + begin, end - begin); });
}

void copy_bytes(const Tensor& source, const Tensor& destination) {
  if (source.raw() == destination.raw()) return;
  const auto* in = static_cast<const std::byte*>(source.raw());
  auto* out = static_cast<std::byte*>(destination.raw());
  parallel_for(static_cast<int64_t>(source.bytes()), 4 * kGrain, [=](int64_t begin, int64_t end) {
    std::memcpy(out + begin, in + begin, static_cast<size_t>(end - begin));
  });
}

template <typename T>
void add_range(const T* a, const T* b, T* out, int64_t n) {
  map_blocks(
      n, out, [=](int64_t i) { return to_float(a[i]) + to_float(b[i]); }, a, b);
}

template <typename T>
void scale_range(const T* x, float factor, T* y, int64_t n) {
  map_blocks(
      n, y, [=](int64_t i) { return factor * to_float(x[i]); }, x);
}

template <typename T>
void add_scaled_range(float a, const T* x, float b, const T* y, T* out, int64_t n) {
  map_blocks(
      n, out, [=](int64_t i) { return std::fma(a, to_float(x[i]), b * to_float(y[i])); }, x, y);
}

}  // namespace

void fill(Tensor tensor, double value) {
  dispatch_value(tensor.dtype(), value, [&](auto element) { fill_with(tensor, element); });
}

void copy(const Tensor& source, Tensor destination) {
  if (source.dtype() == destination.dtype()) return copy_bytes(source, destination);
  if (source.dtype() == DType::f32) return copy_converted<float, bfloat16>(source, destination);
  copy_converted<bfloat16, float>(source, destination);
}

void add(const Tensor& a, const Tensor& b, Tensor out) {
  dispatch_float(a.dtype(), [&]<typename T>() {
    const T *x = a.data<T>(), *y = b.data<T>();
    T* to = out.data<T>();
    parallel_for(a.numel(), kGrain, [=](int64_t begin, int64_t end) {
      add_range(x + begin, y + begin, to + begin, end - begin);
    });
  });
}

void scale(const Tensor& x, float factor, Tensor y) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T* in = x.data<T>();
    T* out = y.data<T>();
    parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
      scale_range(in + begin, factor, out + begin, end - begin);
    });
  });
}

void add_scaled(float a, const Tensor& x, float b, const Tensor& y, Tensor out) {
  dispatch_float(x.dtype(), [&]<typename T>() {
    const T *p = x.data<T>(), *q = y.data<T>();
    T* to = out.data<T>();
    parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
      add_scaled_range(a, p + begin, b, q + begin, to + begin, end - begin);
    });
  });
}

void scale_to_unit_norm(const Tensor& x, const Tensor& squares, float eps, Tensor y) {
  const double norm = std::sqrt(squares.data<double>()[0]);
  cpu::scale(x, static_cast<float>(1.0 / (norm + double{eps})), y);
}

}  // namespace tessera::cpu
