// Devices, errors and memory of the CUDA runtime, as far as Tessera uses it, on an emulated GPU.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

#include "tests/emulator/device_memory.h"
#include "tests/emulator/graphs.h"
#include "tests/emulator/streams.h"

namespace {

constexpr int kNone = -1;
thread_local int chosen_device = kNone;
thread_local cudaError_t last_error = cudaSuccess;

int current_device() { return chosen_device == kNone ? 0 : chosen_device; }

int devices() {
  const char* text = std::getenv("TESSERA_EMULATOR_DEVICES");
  return text == nullptr ? 0 : std::atoi(text);
}

/// The number in TESSERA_EMULATOR_MULTIPROCESSORS for a GPU, or 4.
int multiprocessors_of(int device) {
  const char* text = std::getenv("TESSERA_EMULATOR_MULTIPROCESSORS");
  if (text == nullptr) return 4;
  std::istringstream numbers(text);
  std::string number = "4";
  for (int i = 0; i <= device && std::getline(numbers, number, ','); ++i) continue;
  return std::atoi(number.c_str());
}

/// TESSERA_EMULATOR_CAPABILITY, or that of Hopper, which alone has wgmma.
struct Capability {
  int major = 9, minor = 0;
};
Capability capability() {
  Capability read;
  const char* text = std::getenv("TESSERA_EMULATOR_CAPABILITY");
  if (text != nullptr && std::sscanf(text, "%d.%d", &read.major, &read.minor) != 2) {
    emulator::fail_call("TESSERA_EMULATOR_CAPABILITY", std::string("expected 8.0, found ") + text);
  }
  return read;
}

}  // namespace

void emulator::require_device(const char* call) {
  if (chosen_device != kNone || devices() < 2) return;
  fail_call(call, "this thread has chosen none of " + std::to_string(devices()) +
                      " GPUs, and would start a context on the first");
}

cudaError_t emulator::remember(cudaError_t code) { return last_error = code; }

void emulator::require_no_error(const char* call) {
  if (last_error == cudaSuccess) return;
  fail_call(call, std::string("CUDA's last error is still ") + cudaGetErrorName(last_error));
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge:
      return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    default:
      return "invalid argument";
  }
}
const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge:
      return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    default:
      return "cudaErrorInvalidValue";
  }
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  chosen_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  std::snprintf(text, static_cast<size_t>(size), "0000:%02x:00.0", static_cast<unsigned>(device));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "emulated GPU");
  properties->major = capability().major;
  properties->minor = capability().minor;
  properties->multiProcessorCount = multiprocessors_of(device);
  properties->totalGlobalMem = emulator::kDeviceBytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = multiprocessors_of(device);
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = capability().major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = capability().minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = emulator::kBlockSharedBytes;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  emulator::require_device("cudaMemGetInfo");
  *total_bytes = emulator::kDeviceBytes;
  *free_bytes = emulator::free_device_bytes(current_device());
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  emulator::require_device("cudaMalloc");
  if (emulator::thread_capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  emulator::catch_faults();
  *data = emulator::allocate_device(bytes, current_device());
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  emulator::require_device("cudaFree");
  if (emulator::thread_capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  emulator::finish_device();
  if (!emulator::free_device(data)) emulator::free_host(data);  // from cudaMallocManaged
  return cudaSuccess;
}
cudaError_t cudaMallocManaged(void** data, size_t bytes) {
  emulator::require_device("cudaMallocManaged");
  if (emulator::thread_capture_forbids()) return cudaErrorStreamCaptureUnsupported;
  *data = emulator::allocate_host(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  int devices = 0;
  emulator::require_device("cudaMallocHost");
  const cudaError_t error = cudaGetDeviceCount(&devices);
  return error == cudaSuccess ? cudaMallocManaged(data, bytes) : error;
}
cudaError_t cudaFreeHost(void* data) {
  emulator::require_device("cudaFreeHost");
  emulator::finish_device();
  emulator::free_host(data);
  return cudaSuccess;
}
