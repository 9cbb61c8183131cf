#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace tessera {

/// A contiguous row-major view that never owns its elements; a Buffer does, usually through an
/// Arena or a ParameterStore. Copying a tensor copies the view. Constness is that of the view, as
/// with std::span: an op takes inputs as `const Tensor&` and outputs as `Tensor`.
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, Shape shape, DType dtype, Device device);

  bool defined() const { return defined_; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t numel() const { return numel_; }
  size_t bytes() const { return static_cast<size_t>(numel_) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  void* raw() const { return data_; }

  /// A pointer to the first element, null on the meta device. Throws if T does not match the dtype.
  template <typename T>
  T* data() const {
    check_dtype(dtype_of<T>());
    return static_cast<T*>(data_);
  }

  /// All elements of a tensor in host memory.
  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<size_t>(numel_)};
  }

  /// Returns the elements with another shape of equal size.
  Tensor view(const Shape& shape) const;

  /// Elements [begin, end) of the outermost dim.
  Tensor slice(int64_t begin, int64_t end) const;

 private:
  void check_dtype(DType expected) const;

  void* data_ = nullptr;
  Shape shape_;
  int64_t numel_ = 0;
  DType dtype_ = DType::f32;
  Device device_;
  bool defined_ = false;
};

/// A tensor as an argument of a message.
struct Described {
  const Tensor& tensor;
};
inline Described describe(const Tensor& tensor) { return {tensor}; }
/// "fp32 (2, 3) on cpu"
std::string to_string(const Described& described);

/// Throws, naming `op` and `name`, unless `tensor` has this shape.
void require_shape(const Tensor& tensor, const Shape& shape, const char* op, const char* name);

/// Throws, naming `op` and `name`, unless `tensor` has this dtype.
void require_dtype(const Tensor& tensor, DType dtype, const char* op, const char* name);

/// The extent of the last dim.
inline int64_t columns_of(const Tensor& tensor) { return tensor.dim(-1); }

/// The product of all dims but the last.
inline int64_t rows_of(const Tensor& tensor) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < tensor.shape().rank(); ++i) rows *= tensor.dim(i);
  return rows;
}

}  // namespace tessera

template <>
struct fmt::formatter<tessera::Described> : tessera::ToStringFormatter<tessera::Described> {};
