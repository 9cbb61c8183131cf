#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"
#include "core/tensor.h"

namespace tessera {

/// Alignment of every allocation and of every tensor inside one: a cache line and a full AVX-512
/// register.
inline constexpr size_t kAlignment = 64;

/// Owns one zeroed block of memory on a device. On the meta device it owns nothing.
class Buffer {
 public:
  Buffer() = default;
  Buffer(size_t bytes, Device device);

  void* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  /// The buffer's first elements as a tensor; throws if they do not fit.
  Tensor tensor(const Shape& shape, DType dtype) const;

 private:
  struct Free {
    Free() : bytes(0) {}
    explicit Free(size_t size) : bytes(size) {}
    size_t bytes;
    void operator()(void* data) const;
  };

  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
  Device device_;
};

/// A tensor together with the buffer that it lives in.
struct OwnedTensor {
  OwnedTensor() = default;
  OwnedTensor(const Shape& shape, DType dtype, Device device = kCpu);

  Buffer buffer;
  Tensor tensor;
};

}  // namespace tessera
