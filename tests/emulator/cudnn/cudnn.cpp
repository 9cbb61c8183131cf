// cuDNN's handles.

#include <cudnn.h>

#include "tests/emulator/cudnn/context.h"
#include "tests/emulator/device_memory.h"

size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    default:
      return "CUDNN_STATUS_BAD_PARAM";
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  int devices = 0;
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = new cudnnContext;
  cudaGetDevice(&(*handle)->device);
  emulator::take_device_bytes(emulator::kCudnnBytes, (*handle)->device);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle != nullptr) {
    emulator::return_device_bytes(emulator::kCudnnBytes, handle->device);
  }
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr || stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}
