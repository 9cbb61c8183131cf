#pragma once

#include <cstddef>
#include <string>

/// NVIDIA GPUs as the rest of Tessera sees them, without a CUDA header. Defined where kHasCuda.
namespace tessera::cuda {

/// How many GPUs this process sees; 0 where there is no driver, or one that is too old.
int device_count();

/// Why device_count() is 0, in words that say what to do; "" if it is not.
std::string why_no_device();

/// Where GPU `index` is in its host ("0000:1b:00.0"). Processes may number the same GPUs otherwise,
/// or see only some of them; this tells which is which.
std::string device_address(int index);

struct DeviceInfo {
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  int major = 0;     ///< compute capability
  int minor = 0;
  int multiprocessors = 0;
  size_t total_bytes = 0;
  size_t free_bytes = 0;
};

/// May start a context on that GPU, which takes some of its memory.
DeviceInfo device_info(int index);

/// Name and compute capability alone, without a context.
DeviceInfo device_kind(int index);

/// The architectures that this build's kernels were compiled for, as CMake names them, with commas
/// between: "80-real,90a-real,100". "" if that is not known, as of an emulated GPU.
std::string compiled_architectures();

/// Whether this build's kernels run on the calling thread's GPU. Asks the driver.
bool has_kernels();

/// Whether GPUs are emulated on the CPU (docs/emulation.md), so that times mean nothing.
bool is_emulated();

/// Makes GPU `index` the one of the calling thread, which is a rank: its tensors, stream and
/// libraries' handles are there. To be called once, before anything else.
void use_device(int index);

/// Returns when everything that this thread enqueued is done. Throws what went wrong on the GPU
/// meanwhile, or what a Watch (core/cuda/watch.h) throws.
void synchronize();

/// A point in the order of the calling thread's work (a CUDA event, as a pointer).
void* make_event();
void record_event(void* event);
void wait_for_event(void* event);
void release_event(void* event);

/// Zeroed memory on the calling thread's GPU. Throws, with the sizes, if it has not as much.
void* allocate(size_t bytes);
/// Returns memory of allocate(); waits for what still uses it.
void release(void* data);

/// Zeroed host memory that a GPU copies to and from without waiting.
void* allocate_pinned(size_t bytes);
void release_pinned(void* data);

/// For profilers: a named stretch of the calling thread's program. Ranges nest. See
/// core/trace/trace.h.
void push_range(const char* name);
void pop_range();

/// For tests, before anything is allocated: the host, too, may read and write what allocate()
/// gives (CUDA's managed memory), while no work on it is under way.
void make_memory_host_visible();

}  // namespace tessera::cuda
