#pragma once

#include <cuda_runtime.h>

/// What a cudnnHandle_t points to.
struct cudnnContext {
  cudaStream_t stream = nullptr;
  int device = 0;
};
