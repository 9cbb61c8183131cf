#pragma once

#include <cstddef>
#include <optional>
#include <string>

/// NVIDIA GPUs for the rest of Tessera, without CUDA headers. Defined where kHasCuda.
namespace tessera::cuda {

/// The number of GPUs that this process sees; 0 without a driver or with one that is too old.
int device_count();

/// Why device_count() is 0, and what to do; none if it is not 0.
std::optional<std::string> no_device_reason();

/// The version of the NVIDIA driver: "580.159.04", or "for CUDA 13.0" if only that is known.
std::string driver_version();

/// The PCI address of GPU `index` ("0000:1b:00.0"). Processes may number the same GPUs differently
/// or see only some of them; the address identifies them.
std::string device_address(int index);

struct DeviceInfo {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  int major = 0;     ///< compute capability
  int minor = 0;
  int multiprocessors = 0;
  size_t total_bytes = 0;
  size_t free_bytes = 0;
};

/// Reads the properties of a GPU. May create a context, which uses some of its memory.
DeviceInfo device_info(int index);

/// Reads only name and compute capability, without a context.
DeviceInfo device_kind(int index);

/// The architectures that this build's kernels were compiled for, as CMake names them, separated by
/// commas: "80-real,90a-real,100". Empty if unknown, as for an emulated GPU.
std::string compiled_architectures();

/// Whether this build's kernels run on the calling thread's GPU. Asks the driver.
bool has_kernels();

/// Whether the calling thread's GPU has Hopper's wgmma (core/cuda/wgmma.h) and this build code for
/// it.
bool has_wgmma();

/// Whether GPUs are emulated on the CPU (docs/emulation.md), so that times are meaningless.
bool is_emulated();

/// Selects GPU `index` for the calling thread, which is a rank: its tensors, stream and library
/// handles. Call it once, before anything else.
void use_device(int index);

/// The number of multiprocessors (SMs) that the calling thread's kernels plan for where it changes
/// the order of sums. It is the GPU's own until use_multiprocessors(): ranks that must compute the
/// same bits on GPUs of different types agree on one number.
int multiprocessors();
/// Sets multiprocessors() until the thread's next use_device(). `count` is at least 1.
void use_multiprocessors(int count);

/// Waits for everything that this thread enqueued. Throws errors of that work and of its wait
/// checks (core/cuda/wait_check.h).
void synchronize();

/// A point in the calling thread's work (a cudaEvent_t as a pointer).
void* make_event();
void record_event(void* event);
void wait_for_event(void* event);
void release_event(void* event);

/// A stream for copies beside the calling thread's work (a cudaStream_t as a pointer).
void* make_copy_stream();
void release_copy_stream(void* copies);
/// Enqueues on it a copy from page-locked host memory to the GPU.
void copy_to_device(void* copies, void* to, const void* from, size_t bytes);
/// Makes it wait for what the calling thread has enqueued, or the thread's later work for its
/// copies.
void copies_wait_for_work(void* copies, void* event);
void work_waits_for_copies(void* copies, void* event);

/// Allocates zeroed memory on the calling thread's GPU. Throws, with the sizes, if there is too
/// little.
void* allocate(size_t bytes);
/// Frees memory of allocate(); waits for its users.
void release(void* data);

/// Allocates zeroed, page-locked host memory.
void* allocate_pinned(size_t bytes);
void release_pinned(void* data);

/// Ranges for profilers, which nest (core/trace/trace.h).
void push_range(const char* name);
void pop_range();

/// For tests: makes allocate() return managed memory, which the host may access while no work on it
/// is pending. Call it before anything is allocated.
void make_memory_host_visible();

}  // namespace tessera::cuda
