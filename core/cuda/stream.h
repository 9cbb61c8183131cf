#pragma once

#include <cuda_runtime.h>

namespace tessera::cuda {

/// Throws, naming `what`, unless `code` is success.
void check(cudaError_t code, const char* what);

/// The stream of the calling thread, on which all of its ops run in order.
cudaStream_t stream();

}  // namespace tessera::cuda
