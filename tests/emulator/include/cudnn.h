#pragma once

#include <cuda_runtime.h>

#include <cstddef>

// The part of cuDNN's own header that Tessera uses, under the same names: a handle and its stream.
// cudnn_frontend.h describes the work, and tests/emulator/cudnn/ implements it.

#define CUDNN_VERSION 91900

enum cudnnStatus_t {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
};
using cudnnHandle_t = struct cudnnContext*;

size_t cudnnGetVersion();
const char* cudnnGetErrorString(cudnnStatus_t status);
/// Creates a handle on the calling thread's GPU, for the null stream.
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream);
