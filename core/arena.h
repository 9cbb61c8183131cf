#pragma once

#include <cstddef>

#include "core/memory.h"
#include "core/tensor.h"

namespace tessera {

/// Allocates tensors from one block by advancing an offset; they are freed together. An arena on
/// the meta device returns tensors without data and only counts: a dry run on it measures the
/// capacity that the same run needs on a real device.
class Arena {
 public:
  /// An arena on the meta device has no limit and ignores `capacity`.
  explicit Arena(Device device, size_t capacity = 0);

  /// Elements are uninitialized. Throws if the capacity is exceeded.
  Tensor allocate(const Shape& shape, DType dtype);

  /// Frees everything.
  void reset() { used_ = 0; }

  size_t used() const { return used_; }
  /// The peak number of bytes in use.
  size_t peak() const { return peak_; }
  size_t capacity() const { return buffer_.bytes(); }
  Device device() const { return device_; }

  /// Frees at its end what was allocated during its lifetime.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() { arena_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t mark_;
  };

 private:
  Device device_;
  Buffer buffer_;
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace tessera
