#pragma once

#include <cstddef>

namespace simt {

/// While one lives, device memory can be touched; otherwise the host that touches it is stopped as
/// if it were a GPU's. Any number, on any threads.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Bytes of the emulated GPU.
inline constexpr size_t kDeviceBytes = size_t{12} << 30;
size_t free_device_bytes();

/// A block that ends at a page without access, aligned to 256 bytes and filled with ones; null if
/// the GPU has not as much.
void* allocate_device(size_t bytes);
/// False if it is no such block.
bool free_device(void* data);

/// Whether `data` lies in one.
bool is_allocated_device(const void* data);

/// Memory that the host sees too, of exactly this size for a sanitizer; freed by free_host().
void* allocate_host(size_t bytes);
void free_host(void* data);
/// Whether `data` lies in one.
bool is_allocated_host(const void* data);

/// Makes a touch of memory that is not to be touched say what it was. To be called on each thread
/// that runs kernels.
void catch_faults();

}  // namespace simt
