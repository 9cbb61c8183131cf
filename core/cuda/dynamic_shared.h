#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

/// The dynamic shared memory of LaunchShape::shared_bytes, aligned to 16 bytes.
template <typename T>
__device__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ uint4 tessera_shared_memory[];
  return reinterpret_cast<T*>(tessera_shared_memory);
#else
  return static_cast<T*>(emulator::dynamic_shared());
#endif
}

}  // namespace tessera::cuda
