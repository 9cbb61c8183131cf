#include "core/arena.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"

namespace tessera {

Arena::Arena(Device device, size_t capacity) : device_(device) {
  const MemoryUse use("activations");
  buffer_ = Buffer(capacity, device);
}

Tensor Arena::allocate(const Shape& shape, DType dtype) {
  const size_t bytes = static_cast<size_t>(shape.numel()) * size_of(dtype);
  const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  require(device_.is_meta() || used_ + padded <= capacity(),
          "the arena of {} bytes is full: {} bytes are used and a tensor {} {} was asked for; its "
          "capacity comes from a dry run, which must have followed a different path",
          capacity(), used_, to_string(dtype), shape);
  void* data = device_.is_meta() ? nullptr : static_cast<std::byte*>(buffer_.data()) + used_;
  used_ += padded;
  peak_ = std::max(peak_, used_);
  return {data, shape, dtype, device_};
}

}  // namespace tessera
