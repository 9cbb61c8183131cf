#include <cuda_runtime.h>

#include "core/cuda/runtime.h"

namespace tessera::cuda {
namespace {

__global__ void any_kernel() {}

}  // namespace

bool is_emulated() {
#ifdef __CUDACC__
  return false;
#else
  return true;
#endif
}

bool has_kernels() {
#ifdef __CUDACC__
  cudaFuncAttributes attributes;
  const cudaError_t code = cudaFuncGetAttributes(&attributes, any_kernel);
  if (code == cudaSuccess) return true;
  cudaGetLastError();
  return code != cudaErrorNoKernelImageForDevice && code != cudaErrorInvalidDeviceFunction;
#else
  static_cast<void>(any_kernel);  // the emulated GPU runs whatever was compiled
  return true;
#endif
}

}  // namespace tessera::cuda
