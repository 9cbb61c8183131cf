#pragma once

#include <cstddef>

namespace emulator {

/// While one lives, device memory can be touched; otherwise the host that touches it is stopped as
/// if it were a GPU's. Any number, on any threads.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Bytes of each emulated GPU.
inline constexpr size_t kDeviceBytes = size_t{12} << 30;
size_t free_device_bytes(int device);

/// A block that ends at a page without access, aligned to 256 bytes and filled with ones; null if
/// the GPU has not as much.
void* allocate_device(size_t bytes, int device);
/// False if it is no such block.
bool free_device(void* data);

/// Whether `data` lies in one.
bool is_allocated_device(const void* data);

inline constexpr int kNoDevice = -1, kAnyDevice = -2;
/// The GPU whose block has all of these bytes, kAnyDevice of what every GPU and the host see, and
/// kNoDevice of anything else.
int device_of(const void* data, size_t bytes);

/// Memory that the host sees too, of exactly this size for a sanitizer; freed by free_host().
void* allocate_host(size_t bytes);
void free_host(void* data);
/// Whether `data` lies in one.
bool is_allocated_host(const void* data);

/// Bytes from `data` to the end of the block of either kind that it lies in; 0 if it lies in none.
size_t bytes_behind(const void* data);

/// Makes a touch of memory that is not to be touched say what it was. To be called on each thread
/// that runs kernels.
void catch_faults();

}  // namespace emulator
