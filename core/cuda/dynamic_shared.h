#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

/// The dynamic shared memory of LaunchShape::shared_bytes, aligned to 16 bytes or, if T is, to
/// 1024.
template <typename T>
__device__ T* dynamic_shared() {
#ifdef __CUDACC__
  static_assert(alignof(T) <= 1024);
  if constexpr (alignof(T) <= 16) {
    extern __shared__ uint4 tessera_shared_memory[];
    return reinterpret_cast<T*>(tessera_shared_memory);
  } else {
    extern __shared__ __align__(1024) uint4 tessera_aligned_shared_memory[];
    return reinterpret_cast<T*>(tessera_aligned_shared_memory);
  }
#else
  return static_cast<T*>(emulator::dynamic_shared());
#endif
}

}  // namespace tessera::cuda
