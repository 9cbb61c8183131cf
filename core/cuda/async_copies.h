#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifndef __CUDACC__
#include <cstring>
#include <vector>
#endif

namespace tessera::cuda {

/// Asynchronous copies from global to shared memory (PTX's cp.async). Each thread waits for its
/// own.
class AsyncCopies {
 public:
  AsyncCopies() = default;
  AsyncCopies(const AsyncCopies&) = delete;
  AsyncCopies& operator=(const AsyncCopies&) = delete;

  /// Starts a copy of 16 bytes, or writes zeros without reading if not `valid`. Both addresses must
  /// be aligned to 16 bytes.
  __device__ void start(void* to, const void* from, bool valid) {
#if defined(__CUDA_ARCH__)
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
#elif !defined(__CUDACC__)
    for (const void* end : {static_cast<const void*>(to), from}) {
      if (reinterpret_cast<uintptr_t>(end) % 16 != 0) {
        emulator::fail("cp.async to or from an address that is not aligned to 16 bytes");
      }
    }
    started_.push_back({to, valid ? from : nullptr});
#endif
  }

  /// Waits until this thread's copies are visible to it. Other threads see them after a barrier.
  __device__ void wait() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#elif !defined(__CUDACC__)
    for (const Copy& copy : started_) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, 16);
      } else {
        std::memcpy(copy.to, copy.from, 16);
      }
      emulator::wrote_shared(copy.to, 16);
    }
    started_.clear();
#endif
  }

#ifndef __CUDACC__
 private:
  struct Copy {
    void* to;
    const void* from;
  };
  std::vector<Copy> started_;  ///< completed as late as a GPU may complete them
#endif
};

}  // namespace tessera::cuda
