#pragma once

#include <cstddef>

namespace emulator {

/// Device memory is accessible while one of these exists; otherwise, a host access is stopped like
/// an access to a real GPU's memory. There may be any number, on any threads.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// The memory size of each emulated GPU in bytes.
inline constexpr size_t kDeviceBytes = size_t{12} << 30;
size_t free_device_bytes(int device);

/// Memory that a library takes for itself, which nobody accesses: only free_device_bytes() shows
/// it.
inline constexpr size_t kCublasLtBytes = size_t{8} << 20;  ///< a handle
inline constexpr size_t kCudnnBytes = size_t{16} << 20;    ///< a handle
inline constexpr size_t kNcclBytes = size_t{64} << 20;     ///< a rank's end of a communicator
inline constexpr size_t kNcclKindBytes = size_t{8} << 20;  ///< its first collective of each kind
void take_device_bytes(size_t bytes, int device);
void return_device_bytes(size_t bytes, int device);

/// Returns a block that ends at an inaccessible page, is aligned to 256 bytes and filled with 0xff.
/// Returns null if the GPU is out of memory.
void* allocate_device(size_t bytes, int device);
/// Returns a block of zeros of any size, of which only pages that are accessed take memory of this
/// machine, and none of the emulated GPU's. An index that has lost its upper bits does not reach
/// another block: 32 GiB on both sides are inaccessible. `bytes` is a multiple of 256. Returns null
/// if there are not enough addresses.
void* allocate_sparse_device(size_t bytes, int device);

/// Returns false if `data` is no block of either kind.
bool free_device(void* data);

/// Returns whether `data` is in such a block.
bool is_allocated_device(const void* data);

inline constexpr int kNoDevice = -1, kAnyDevice = -2;
/// Returns the GPU whose block contains all of these bytes, kAnyDevice for memory that all GPUs and
/// the host can access, or kNoDevice for any other memory.
int device_of(const void* data, size_t bytes);

/// Memory that the host can also access, of exactly this size for sanitizers. Free it with
/// free_host().
void* allocate_host(size_t bytes);
void free_host(void* data);
/// Returns whether `data` is in such memory.
bool is_allocated_host(const void* data);

/// Returns the bytes from `data` to the end of its block, of either kind; 0 if it is in none.
size_t bytes_behind(const void* data);

/// Makes faults on inaccessible memory report what was accessed. Call on each thread that runs
/// kernels.
void catch_faults();

}  // namespace emulator
