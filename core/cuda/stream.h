#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

/// Throws, naming `what`, unless `code` is success.
void check(cudaError_t code, const char* what);

/// Of a query's answer: false for cudaErrorNotReady, which then stays CUDA's last error no longer:
/// libraries that look at that after their launches would take it for a failure of those.
bool is_done(cudaError_t code);

/// The stream of the calling thread, on which all of its ops run in order.
cudaStream_t stream();

}  // namespace tessera::cuda
