#include "core/ops/elementwise.h"

#include <cmath>

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

/// Throws unless an integer `dtype` can hold `value`.
void require_representable(DType dtype, double value) {
  const auto between = [&](double low, double high) {
    require(low <= value && value < high && value == std::trunc(value),
            "fill: {} is not representable in {}", value, to_string(dtype));
  };
  if (dtype == DType::i32) between(-0x1p31, 0x1p31);
  if (dtype == DType::i64) between(-0x1p63, 0x1p63);
  if (dtype == DType::u8) between(0.0, 0x1p8);
}

}  // namespace

void fill(Tensor tensor, double value) {
  const OpRange range("fill");
  require(tensor.defined(), "fill: tensor is undefined");
  require_representable(tensor.dtype(), value);
  const Device device = tensor.device();
  dispatch<cpu::fill, cuda::fill, meta::fill>(device, tensor, value);
}

void copy(const Tensor& source, Tensor destination) {
  const OpRange range("copy");
  constexpr const char* kOp = "copy";
  require(source.defined(), "{}: source is undefined", kOp);
  require_shape(destination, source.shape(), kOp, "destination");
  if (destination.dtype() != source.dtype()) {
    require_float(source, kOp, "source");
    require_float(destination, kOp, "destination");
    require_disjoint(destination, "destination", source, "source", kOp);
  }
  require_same_or_disjoint(destination, "destination", source, "source", kOp);
  if (any_meta(source, destination)) return meta::copy(source, destination);
  if constexpr (kHasCuda) {
    if (source.device().is_cuda() || destination.device().is_cuda()) {
      require(source.dtype() == destination.dtype() || source.device() == destination.device(),
              "{}: a copy from {} to {} cannot change the dtype; convert on one device", kOp,
              describe(source), describe(destination));
      return cuda::copy(source, destination);
    }
  }
  cpu::copy(source, destination);
}

void add(const Tensor& a, const Tensor& b, Tensor out) {
  const OpRange range("add");
  constexpr const char* kOp = "add";
  require_float(a, kOp, "a");
  require_like(b, a, kOp, "b");
  require_like(out, a, kOp, "out");
  require_same_or_disjoint(out, "out", a, "a", kOp);
  require_same_or_disjoint(out, "out", b, "b", kOp);
  const Device device = common_device(kOp, a, b, out);
  dispatch<cpu::add, cuda::add, meta::add>(device, a, b, out);
}

void scale(const Tensor& x, float factor, Tensor y) {
  const OpRange range("scale");
  constexpr const char* kOp = "scale";
  require_float(x, kOp, "x");
  require_like(y, x, kOp, "y");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  const Device device = common_device(kOp, x, y);
  dispatch<cpu::scale, cuda::scale, meta::scale>(device, x, factor, y);
}

void add_scaled(float a, const Tensor& x, float b, const Tensor& y, Tensor out) {
  const OpRange range("add_scaled");
  constexpr const char* kOp = "add_scaled";
  require_float(x, kOp, "x");
  require_like(y, x, kOp, "y");
  require_like(out, x, kOp, "out");
  require_same_or_disjoint(out, "out", x, "x", kOp);
  require_same_or_disjoint(out, "out", y, "y", kOp);
  const Device device = common_device(kOp, x, y, out);
  dispatch<cpu::add_scaled, cuda::add_scaled, meta::add_scaled>(device, a, x, b, y, out);
}

void scale_to_unit_norm(const Tensor& x, const Tensor& squares, float eps, Tensor y) {
  const OpRange range("scale_to_unit_norm");
  constexpr const char* kOp = "scale_to_unit_norm";
  require_float(x, kOp, "x");
  require_shape(squares, {1}, kOp, "squares");
  require_dtype(squares, DType::f64, kOp, "squares");
  require_like(y, x, kOp, "y");
  require_same_or_disjoint(y, "y", x, "x", kOp);
  require_disjoint(y, "y", squares, "squares", kOp);
  require(eps > 0.0f, "{}: eps must be positive, but is {}", kOp, eps);
  const Device device = common_device(kOp, x, squares, y);
  dispatch<cpu::scale_to_unit_norm, cuda::scale_to_unit_norm, meta::scale_to_unit_norm>(
      device, x, squares, eps, y);
}

}  // namespace tessera
