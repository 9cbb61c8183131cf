#include "core/tensor.h"

#include "core/error.h"

namespace tessera {

std::string to_string(Device device) {
  switch (device.type) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::meta:
      return "meta";
    case DeviceType::cuda:
      return fmt::format("cuda:{}", device.index);
  }
  return "?";
}

Tensor::Tensor(void* data, Shape shape, DType dtype, Device device)
    : data_(data),
      shape_(shape),
      numel_(shape.numel()),
      dtype_(dtype),
      device_(device),
      defined_(true) {}

Tensor Tensor::view(const Shape& shape) const {
  require(shape.numel() == numel_, "a tensor of shape {} cannot be viewed as {}", shape_, shape);
  return {data_, shape, dtype_, device_};
}

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  require(shape_.rank() > 0 && 0 <= begin && begin <= end && end <= shape_[0],
          "rows [{}, {}) are not within a tensor of shape {}", begin, end, shape_);
  Shape shape = shape_;
  shape.set(0, end - begin);
  const int64_t row = shape_[0] == 0 ? 0 : numel_ / shape_[0];
  void* data = data_ == nullptr ? nullptr
                                : static_cast<std::byte*>(data_) +
                                      static_cast<size_t>(begin * row) * size_of(dtype_);
  return {data, shape, dtype_, device_};
}

void Tensor::check_dtype(DType expected) const {
  if (defined_ && dtype_ == expected) return;  // first: inner loops call this
  require(defined_, "an undefined tensor was used as {}", to_string(expected));
  fail("a tensor {} was used as {}", describe(*this), to_string(expected));
}

std::string to_string(const Described& described) {
  const Tensor& tensor = described.tensor;
  if (!tensor.defined()) return "undefined";
  return fmt::format("{} {} on {}", to_string(tensor.dtype()), to_string(tensor.shape()),
                     to_string(tensor.device()));
}

void require_shape(const Tensor& tensor, const Shape& shape, const char* op, const char* name) {
  if (tensor.defined() && tensor.shape() == shape)
    return;  // first: every op calls this, and texts cost time
  fail("{}: {} must have shape {}, but is {}", op, name, to_string(shape), describe(tensor));
}

void require_dtype(const Tensor& tensor, DType dtype, const char* op, const char* name) {
  if (tensor.defined() && tensor.dtype() == dtype) return;
  fail("{}: {} must be {}, but is {}", op, name, to_string(dtype), describe(tensor));
}

}  // namespace tessera
