#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tessera::cuda {

/// Returns at least `bytes` of uninitialized scratch memory on the calling thread's GPU, aligned to
/// 256 bytes. It is valid for the kernels that the calling op enqueues, until the thread's next op
/// calls this: ops of a thread run in order on its stream and share one block.
///
/// A request larger than all before waits for the stream and reallocates the block; other requests
/// are free. So an op requests a constant amount, or what its shapes need, and nothing grows after
/// the first step. Call it once per op: a second call may move the first block. Throws if the GPU
/// is out of memory, or if the block must grow while a graph is captured (core/cuda/graph.h).
void* workspace(size_t bytes);

/// The size of the block after a first request of `bytes`: whole MiB.
inline size_t workspace_block_bytes(size_t bytes) {
  constexpr size_t kMiB = size_t{1} << 20;
  return (std::max(bytes, kMiB) + kMiB - 1) / kMiB * kMiB;
}

/// The size of the calling thread's block.
size_t workspace_bytes();

/// Waits for the stream and frees the block; the next request allocates another one.
void release_workspace();

/// How often the calling thread's workspace has moved. A graph is valid only as long as the
/// workspace does not move.
int64_t workspace_moves();

}  // namespace tessera::cuda
