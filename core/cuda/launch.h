#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/checked.h"
#include "core/cuda/stream.h"

namespace tessera::cuda {

/// Threads of a block, for kernels that work with any number.
inline constexpr int kBlockThreads = 256;

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  ///< size of dynamic_shared()
};

/// A one-dimensional grid of blocks of `threads`. Kernels loop over their range, so there are no
/// more blocks than keep a large GPU busy.
inline LaunchShape one_dimensional(int64_t items, int threads, int64_t max_blocks = 4096) {
  const int64_t blocks = std::min(ceil_div(items, threads), max_blocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
}

/// Enqueues a kernel on the calling thread's stream. An empty grid is a no-op. Throws, naming
/// `what`, if the launch fails.
template <typename... Parameters, typename... Arguments>
void launch(const char* what, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  constexpr size_t kWithoutAsking = 48 << 10;
  if (shape.shared_bytes > kWithoutAsking) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)),
          what);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream();
#ifndef __CUDACC__
  config.emulated_name = what;  // named in the emulator's messages
#endif
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), what);
  bound_queue();
}

}  // namespace tessera::cuda
