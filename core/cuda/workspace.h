#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::cuda {

/// At least `bytes` of scratch on the calling thread's GPU, aligned to 256 bytes, with any
/// contents. It is for the kernels that the calling op enqueues, until the next op of this thread
/// asks: all of a thread's ops run one after the other on its stream and so share one block.
///
/// A request beyond all before it waits for the stream, frees the block and allocates a larger one;
/// all others cost nothing. An op therefore asks for the same amount each time where it can, or for
/// what its shapes need, so that nothing grows after the first step. To be asked once an op: a
/// second call may move the first one's memory. Throws if the GPU has no memory left, or if it
/// would have to grow while a graph is recorded (core/cuda/graph.h).
void* workspace(size_t bytes);

/// How often the calling thread's workspace has moved: a graph is good only for the place where it
/// was when it was recorded.
int64_t workspace_moves();

}  // namespace tessera::cuda
