#include "core/cuda/runtime.h"

#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <fstream>
#include <utility>

#include "core/cuda/architectures.h"
#include "core/cuda/graph.h"
#include "core/cuda/stream.h"
#include "core/cuda/wait_check.h"
#include "core/error.h"
#include "core/memory.h"

namespace tessera::cuda {
namespace {

struct ThreadState {
  cudaStream_t stream = nullptr;
  // Events of bound_queue(), each recorded when so many operations had followed the one before it.
  std::array<void*, 3> marks = {};
  size_t next_mark = 0;
  int since_mark = 0;
  // Stream and events are never destroyed: the driver may be gone when a thread ends.
};
constexpr int kBetweenMarks = 128;

thread_local ThreadState thread_state;
thread_local int planned_multiprocessors = 0;  // 0 if not asked for yet
thread_local std::optional<bool> known_wgmma;  // of has_wgmma(), once asked for

std::atomic<bool> host_visible = false;

double gibibytes(size_t bytes) { return static_cast<double>(bytes) / (1u << 30); }

/// Freeing memory waits for all work on the GPU, without running wait checks. So wait for the
/// stream first.
void wait_before_release() {
  if (!WaitCheck::any()) return;
  try {
    WaitCheck::wait_until([] { return is_done(cudaStreamQuery(stream())); });
  } catch (const std::exception&) {
    // Failed work is aborted, so it ends; the next wait for the GPU throws the error again.
  }
}

[[noreturn]] void fail_out_of_memory(size_t bytes) {
  cudaGetLastError();
  size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  const std::string_view use = MemoryUse::current(), advice = MemoryUse::advice();
  throw DeviceError(fmt::format(
      "out of GPU memory{}{}: {:.2f} GiB were asked for, and {:.2f} of {:.2f} GiB are free; {}, or "
      "stop other processes on this GPU",
      use.empty() ? "" : " for ", use, gibibytes(bytes), gibibytes(free_bytes),
      gibibytes(total_bytes),
      advice.empty() ? "choose a smaller micro-batch, more tensor ranks" : advice));
}

}  // namespace

bool is_done(cudaError_t code) {
  if (code != cudaErrorNotReady) return true;
  cudaGetLastError();
  return false;
}

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  throw DeviceError(fmt::format("{} failed on the GPU: {} ({})", what, cudaGetErrorString(code),
                                cudaGetErrorName(code)));
}

cudaStream_t stream() {
  ThreadState& state = thread_state;
  if (state.stream == nullptr) {
    check(cudaStreamCreateWithFlags(&state.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  return state.stream;
}

void bound_queue() {
  ThreadState& state = thread_state;
  if (++state.since_mark < kBetweenMarks || !WaitCheck::any()) return;
  state.since_mark = 0;
  if (is_recording()) return;  // nothing runs
  void*& newest = state.marks[state.next_mark];
  if (newest == nullptr) newest = make_event();
  record_event(newest);
  state.next_mark = (state.next_mark + 1) % state.marks.size();
  if (void* oldest = state.marks[state.next_mark]; oldest != nullptr) wait_for_event(oldest);
}

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::optional<std::string> no_device_reason() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return std::nullopt;
  cudaGetLastError();
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "there is no NVIDIA driver (check with nvidia-smi)";
  if (code == cudaErrorInsufficientDriver) {
    return fmt::format(
        "the NVIDIA driver supports CUDA {}.{} at most, but this build needs {}.{}: update the "
        "driver, or build with an older CUDA toolkit",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  }
  if (code == cudaSuccess || code == cudaErrorNoDevice) {
    return "the NVIDIA driver reports no GPU (CUDA_VISIBLE_DEVICES may hide them)";
  }
  return fmt::format("CUDA cannot start: {} ({})", cudaGetErrorString(code),
                     cudaGetErrorName(code));
}

std::string driver_version() {
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ..."
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; !is_emulated() && file >> word;) {
    const bool is_version = word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_version && word.find('.') != std::string::npos) return word;
  }
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return fmt::format("for CUDA {}.{}", version / 1000, version % 1000 / 10);
}

std::string device_address(int index) {
  char address[32] = {};
  check(cudaDeviceGetPCIBusId(address, sizeof(address), index), "cudaDeviceGetPCIBusId");
  return address;
}

DeviceInfo device_kind(int index) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  DeviceInfo info;
  info.name = properties.name;
  info.major = properties.major;
  info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  return info;
}

std::string compiled_architectures() {
#ifdef TESSERA_CUDA_ARCHITECTURES
  return TESSERA_CUDA_ARCHITECTURES;
#else
  return "";
#endif
}

DeviceInfo device_info(int index) {
  DeviceInfo info = device_kind(index);
  int current = 0;
  check(cudaGetDevice(&current), "cudaGetDevice");
  check(cudaSetDevice(index), "cudaSetDevice");
  check(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "cudaMemGetInfo");
  check(cudaSetDevice(current), "cudaSetDevice");
  return info;
}

void use_device(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
  planned_multiprocessors = 0;
  known_wgmma.reset();
}

bool has_wgmma() {
  if (!known_wgmma) {
    int device = 0, major = 0, minor = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    for (const auto& [value, attribute] : {std::pair(&major, cudaDevAttrComputeCapabilityMajor),
                                           std::pair(&minor, cudaDevAttrComputeCapabilityMinor)}) {
      check(cudaDeviceGetAttribute(value, attribute, device), "cudaDeviceGetAttribute");
    }
    known_wgmma = major == 9 && minor == 0 && any_is_for(compiled_architectures(), "90a");
  }
  return *known_wgmma;
}

int multiprocessors() {
  if (planned_multiprocessors == 0) {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&planned_multiprocessors, cudaDevAttrMultiProcessorCount, device),
          "cudaDeviceGetAttribute");
  }
  return planned_multiprocessors;
}

void use_multiprocessors(int count) {
  require(count >= 1, "a GPU has at least one multiprocessor, not {}", count);
  planned_multiprocessors = count;
}

void synchronize() {
  if (WaitCheck::any()) {
    WaitCheck::wait_until([] { return is_done(cudaStreamQuery(stream())); });
  }
  check(cudaStreamSynchronize(stream()), "the work on the stream");
}

void* make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

void record_event(void* event) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), stream()), "cudaEventRecord");
}

void wait_for_event(void* event) {
  if (WaitCheck::any()) {
    WaitCheck::wait_until([&] { return is_done(cudaEventQuery(static_cast<cudaEvent_t>(event))); });
  }
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "the work on the stream");
}

void release_event(void* event) { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

void* make_copy_stream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
  return made;
}

void release_copy_stream(void* copies) { cudaStreamDestroy(static_cast<cudaStream_t>(copies)); }

void copy_to_device(void* copies, void* to, const void* from, size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(copies)),
        "a copy to the GPU");
}

void copies_wait_for_work(void* copies, void* event) {
  record_event(event);
  check(cudaStreamWaitEvent(static_cast<cudaStream_t>(copies), static_cast<cudaEvent_t>(event), 0),
        "cudaStreamWaitEvent");
}

void work_waits_for_copies(void* copies, void* event) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(copies)),
        "cudaEventRecord");
  check(cudaStreamWaitEvent(stream(), static_cast<cudaEvent_t>(event), 0), "cudaStreamWaitEvent");
}

void make_memory_host_visible() { host_visible = true; }

void* allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t code =
      host_visible ? cudaMallocManaged(&data, bytes) : cudaMalloc(&data, bytes);
  if (code == cudaErrorMemoryAllocation) fail_out_of_memory(bytes);
  check(code, host_visible ? "cudaMallocManaged" : "cudaMalloc");
  check(cudaMemsetAsync(data, 0, bytes, stream()), "cudaMemset");
  synchronize();
  return data;
}

void release(void* data) {
  wait_before_release();
  cudaFree(data);
}

void* allocate_pinned(size_t bytes) {
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), "cudaMallocHost");
  std::memset(data, 0, bytes);
  return data;
}

void release_pinned(void* data) {
  wait_before_release();
  cudaFreeHost(data);
}

}  // namespace tessera::cuda
