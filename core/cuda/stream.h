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

}  // namespace tessera::cuda
