#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/device.h"
#include "core/tensor.h"

namespace tessera {

/// Alignment of every allocation and of every tensor inside one: a cache line and a full AVX-512
/// register.
inline constexpr size_t kAlignment = 64;

/// How host memory is allocated.
enum class MemoryKind : uint8_t {
  ordinary,
  pinned,  ///< page-locked: a GPU copies to and from it asynchronously
};

/// Names what the calling thread allocates during its lifetime, for the out-of-memory message of a
/// GPU. The innermost non-empty text wins. Both texts must outlive it and may be "".
class MemoryUse {
 public:
  /// `what` follows "out of GPU memory for ", e.g. "the scratch memory of ops"; `advice` follows
  /// the sizes, e.g. "choose a smaller --micro-batch".
  explicit MemoryUse(std::string_view what, std::string_view advice = "");
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  static std::string_view current();
  static std::string_view advice();

 private:
  std::string_view what_, advice_;
  const MemoryUse* outer_;
};

/// Owns one zeroed block of memory on a device, or nothing on the meta device. A block on a GPU is
/// on the calling thread's. Throws with the sizes if the device has too little memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(size_t bytes, Device device, MemoryKind kind = MemoryKind::ordinary);

  void* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// The buffer's first elements as a tensor; throws if they do not fit.
  Tensor tensor(const Shape& shape, DType dtype) const;

 private:
  struct Free {
    Free() : bytes(0), kind(MemoryKind::ordinary) {}
    Free(size_t size, Device where, MemoryKind which) : bytes(size), device(where), kind(which) {}
    size_t bytes;
    Device device;
    MemoryKind kind;
    void operator()(void* data) const;
  };

  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
  Device device_;
};

/// A tensor and the buffer that holds it.
struct OwnedTensor {
  OwnedTensor() = default;
  OwnedTensor(const Shape& shape, DType dtype, Device device = kCpu,
              MemoryKind kind = MemoryKind::ordinary);

  Buffer buffer;
  Tensor tensor;
};

}  // namespace tessera
