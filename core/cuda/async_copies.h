#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifndef __CUDACC__
#include <cstring>
#include <vector>
#endif

namespace tessera::cuda {

/// Copies from global to shared memory that a thread starts, and that run while it does something
/// else (PTX's cp.async). Each thread has its own.
class AsyncCopies {
 public:
  AsyncCopies() = default;
  AsyncCopies(const AsyncCopies&) = delete;
  AsyncCopies& operator=(const AsyncCopies&) = delete;

  /// Starts to copy 16 bytes; zeros if not `valid`, and then nothing is read. Both are aligned to
  /// 16 bytes.
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

  /// Returns when all that was started is there for this thread; for others after a barrier.
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
  std::vector<Copy> started_;  ///< done as late as a GPU may do them
#endif
};

}  // namespace tessera::cuda
