#pragma once

// CUDA's execution model on the CPU, for the sources in core/cuda and core/ops/cuda: the parts of
// CUDA's language and runtime that they use, under the same names. Threads of a block are fibers of
// one host thread. Kernels are checked more strictly than on a GPU. See emulator.h.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device_math.h"
#include "emulator.h"

// --- the language
// -----------------------------------------------------------------------------------
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

// Each declaration of shared memory has its own section, so that shared_memory.cpp finds all of
// them. (GCC does not allow variables in templates and outside to share a section.)
#define EMULATOR_TEXT_OF(x) #x
#define EMULATOR_TEXT(x) EMULATOR_TEXT_OF(x)
#define __shared__ static __attribute__((section("emulator_shared_" EMULATOR_TEXT(__COUNTER__))))

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  constexpr dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// A process runs one grid at a time.
inline uint3 threadIdx{};
inline uint3 blockIdx{};
inline dim3 blockDim{};
inline dim3 gridDim{};

// --- barriers, shuffles, votes
// ------------------------------------------------------------------------
inline void __syncthreads(emulator::Site site = emulator::Site::current()) {
  emulator::block_barrier(site);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       emulator::Site site = emulator::Site::current()) {
  emulator::Parcel parcel{emulator::Exchange::barrier, 0, 0, mask, {}};
  emulator::warp_exchange(parcel, site);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              emulator::Site site = emulator::Site::current()) {
  const int first = emulator::lane() / width * width;
  return emulator::shuffle(mask, value, first + ((source % width) + width) % width, site);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  emulator::Site site = emulator::Site::current()) {
  const int lane = emulator::lane(), source = lane ^ bits;
  return emulator::shuffle(mask, value, source / width == lane / width ? source : lane, site);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, int distance, int width = 32,
                   emulator::Site site = emulator::Site::current()) {
  const int lane = emulator::lane(), source = lane + distance;
  return emulator::shuffle(mask, value, source / width == lane / width ? source : lane, site);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, int distance, int width = 32,
                 emulator::Site site = emulator::Site::current()) {
  const int lane = emulator::lane(), source = lane - distance;
  return emulator::shuffle(mask, value, lane % width >= distance ? source : lane, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              emulator::Site site = emulator::Site::current()) {
  emulator::Parcel parcel{emulator::Exchange::vote, 0, 0, mask, {}};
  parcel.value[0] = std::byte{predicate != 0};
  emulator::warp_exchange(parcel, site);
  unsigned ballot;
  std::memcpy(&ballot, parcel.value, sizeof(ballot));
  return ballot;
}
inline int __any_sync(unsigned mask, int predicate,
                      emulator::Site site = emulator::Site::current()) {
  return __ballot_sync(mask, predicate, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      emulator::Site site = emulator::Site::current()) {
  return __ballot_sync(mask, predicate, site) == mask;
}

// --- arithmetic
// ---------------------------------------------------------------------------------------
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
inline float __fdividef(float x, float y) { return emulator::fast_divide(x, y); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline float __expf(float x) { return emulator::fast_exp(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
template <typename T>
T __ldg(const T* p) {
  return *p;
}
using std::max;
using std::min;

// --- atomics (fibers of one thread take turns)
// --------------------------------------------------------
template <typename T>
T atomicAdd(T* target, T value) {
  const T old = *target;
  *target += value;
  return old;
}
template <typename T>
T atomicMax(T* target, T value) {
  const T old = *target;
  *target = old < value ? value : old;
  return old;
}
inline void __threadfence() {}

// --- the runtime
// --------------------------------------------------------------------------------------
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;

using cudaStream_t = emulator::Stream*;
using cudaEvent_t = emulator::Event*;
using cudaGraph_t = emulator::Graph*;
using cudaGraphExec_t = emulator::GraphExec*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};

struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  const char* emulated_name;  // of the kernel, for messages; specific to the emulator
};

const char* cudaGetErrorString(cudaError_t code);
const char* cudaGetErrorName(cudaError_t code);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
/// TESSERA_EMULATOR_DEVICES, or 0.
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaMallocManaged(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void* nodes, size_t* count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* /*kernel*/, cudaFuncAttribute /*attribute*/, int value) {
  return value <= emulator::kBlockSharedBytes ? cudaSuccess : cudaErrorInvalidValue;
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  const emulator::Launch launch{config->emulated_name,
                                {grid.x, grid.y, grid.z},
                                {block.x, block.y, block.z},
                                config->dynamicSmemBytes};
  if (!emulator::can_launch(launch)) return cudaErrorInvalidValue;
  emulator::enqueue(config->stream, [launch, kernel,
                                     values = std::tuple<std::remove_cv_t<Parameters>...>(
                                         std::forward<Arguments>(arguments)...)] {
    emulator::run_grid(launch, [&] { std::apply(kernel, values); });
  });
  return cudaSuccess;
}
