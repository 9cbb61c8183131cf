#include <limits>

#include "core/cuda/device_code.h"
#include "core/cuda/launch.h"
#include "core/error.h"
#include "core/ops/cuda/embedding/order_keys.h"

namespace tessera::cuda {
namespace {

/// IEEE numbers as integers: all bits but the sign, infinity, and the quiet NaN.
template <typename Int>
struct Bits;
template <>
struct Bits<int32_t> {
  static constexpr int32_t magnitude = 0x7fffffff, infinity = 0x7f800000, nan = 0x7fc00000;
};
template <>
struct Bits<int64_t> {
  static constexpr int64_t magnitude = 0x7fffffffffffffff, infinity = 0x7ff0000000000000,
                           nan = 0x7ff8000000000000;
};

/// Positive numbers are ordered like their bits, negative ones in reverse.
template <typename Int>
__device__ Int order_of(Int bits) {
  return bits < 0 ? bits ^ Bits<Int>::magnitude : bits;
}

template <typename Int>
__global__ void to_keys_kernel(Int* x, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const bool is_nan = (x[i] & Bits<Int>::magnitude) > Bits<Int>::infinity;
    x[i] = is_nan ? Bits<Int>::nan : order_of(x[i]);
  }
}

template <typename Int>
__global__ void from_keys_kernel(Int* x, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) x[i] = order_of(x[i]);
}

/// Calls body with x's elements as integers.
template <typename Body>
void as_integers(const Tensor& x, Body&& body) {
  switch (x.dtype()) {
    case DType::f32:
      return body(static_cast<int32_t*>(x.raw()));
    case DType::f64:
      return body(static_cast<int64_t*>(x.raw()));
    default:
      fail("order keys are those of fp32 and fp64, not of {}", describe(x));
  }
}

}  // namespace

void to_order_keys(Tensor x) {
  as_integers(x, [&]<typename Int>(Int* bits) {
    launch("to_order_keys", one_dimensional(x.numel(), kBlockThreads), to_keys_kernel<Int>, bits,
           x.numel());
  });
}

void from_order_keys(Tensor x) {
  as_integers(x, [&]<typename Int>(Int* bits) {
    launch("from_order_keys", one_dimensional(x.numel(), kBlockThreads), from_keys_kernel<Int>,
           bits, x.numel());
  });
}

}  // namespace tessera::cuda
