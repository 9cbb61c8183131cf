#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

/// Throws, naming `what`, unless `code` is success.
void check(cudaError_t code, const char* what);

/// The result of a query: false for cudaErrorNotReady. Clears that error; libraries that check
/// CUDA's last error would take it for a failure of their launches.
bool is_done(cudaError_t code);

/// The calling thread's stream. All of its ops run on it in order.
cudaStream_t stream();

/// Call it after each kernel, product or graph on stream(). If the thread has wait checks
/// (core/cuda/wait_check.h), it leaves at most 384 of them undone. A GPU's queue has room for about
/// 1024, and a launch beyond that blocks in the driver: no check runs there and the watchdog sees
/// no wait, so the rank would never notice a stopped peer.
void bound_queue();

}  // namespace tessera::cuda
