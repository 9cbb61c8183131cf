#pragma once

#include <cstdint>

#include "core/cuda/device_code.h"

namespace tessera::cuda {

/// Whether packs of N elements may be loaded and stored at this address; true for null.
template <int N, typename T>
bool takes_packs(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % (N * sizeof(T)) == 0;
}

/// One access of N elements.
template <int N, typename T>
__device__ Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <typename T, int N>
__device__ void store(const Pack<T, N>& pack, T* to) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// A pack's values in fp32, for arithmetic.
template <int N>
struct Floats {
  float at[N];
};

template <typename T, int N>
__device__ Floats<N> to_floats(const Pack<T, N>& pack) {
  Floats<N> result;
  for (int i = 0; i < N; ++i) result.at[i] = to_float(pack.at[i]);
  return result;
}

template <int N, typename T>
__device__ Floats<N> load_floats(const T* from) {
  return to_floats(load<N>(from));
}

#ifdef __CUDA_ARCH__
/// Converts two numbers with one instruction.
template <int N>
__device__ Pack<bfloat16, N> round_pairs(const Floats<N>& x) {
  union {
    unsigned pairs[N / 2];
    Pack<bfloat16, N> pack;
  } result;
  for (int i = 0; i < N; i += 2) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
        : "=r"(result.pairs[i / 2])
        : "f"(x.at[i + 1]), "f"(x.at[i]));
  }
  return result.pack;
}
#endif

/// Rounds to nearest even.
template <typename T, int N>
__device__ Pack<T, N> round_to(const Floats<N>& x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
    return round_pairs(x);
  } else
#endif
  {
    Pack<T, N> pack;
    for (int i = 0; i < N; ++i) pack.at[i] = from_float<T>(x.at[i]);
    return pack;
  }
}

template <typename T, int N>
__device__ void store_floats(const Floats<N>& x, T* to) {
  store(round_to<T>(x), to);
}

}  // namespace tessera::cuda
