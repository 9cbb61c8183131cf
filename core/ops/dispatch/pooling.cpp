#include "core/ops/pooling.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void check_pooling(const Tensor& rows, const char* rows_name, const Tensor& documents,
                   const Tensor& whole, const Tensor& pooled, const char* pooled_name,
                   const char* op) {
  require_float(rows, op, rows_name);
  require_dtype(documents, DType::i32, op, "documents");
  require(documents.shape().rank() == 1 && documents.numel() >= 1,
          "{}: documents must have shape (S + 1), but is {}", op, describe(documents));
  require_like(whole, documents, op, "whole");
  require_shape(pooled, {documents.numel() - 1, columns_of(rows)}, op, pooled_name);
  require(pooled.dtype() == rows.dtype() || pooled.dtype() == DType::f32,
          "{}: {} must be {} or fp32, but is {}", op, pooled_name, to_string(rows.dtype()),
          describe(pooled));
  require_disjoint(pooled, pooled_name, rows, rows_name, op);
}

void check_norms(const Tensor& x, const char* x_name, const Tensor& y, float length,
                 const Tensor& inverse_norm, const char* op) {
  require_float(x, op, x_name);
  require(x.shape().rank() == 2 && x.dim(1) >= 1, "{}: {} must have shape (N, C), but is {}", op,
          x_name, describe(x));
  require_shape(y, x.shape(), op, "y");
  require_dtype(y, DType::f32, op, "y");
  require_shape(inverse_norm, {x.dim(0)}, op, "inverse_norm");
  require_dtype(inverse_norm, DType::f32, op, "inverse_norm");
  require(length > 0.0f, "{}: length must be above 0, but is {}", op, length);
}

}  // namespace

void pool_mean(const Tensor& x, const Tensor& documents, Tensor out, int64_t first,
               const Tensor& whole) {
  constexpr const char* kOp = "pool_mean";
  const OpRange range(kOp);
  const Tensor& lengths = whole.defined() ? whole : documents;
  check_pooling(x, "x", documents, lengths, out, "out", kOp);
  const Device device = common_device(kOp, x, documents, lengths, out);
  dispatch<cpu::pool_mean, cuda::pool_mean, meta::pool_mean>(device, x, documents, out, first,
                                                             lengths);
}

void pool_mean_backward(const Tensor& dout, const Tensor& documents, Tensor dx, int64_t first,
                        const Tensor& whole) {
  constexpr const char* kOp = "pool_mean_backward";
  const OpRange range(kOp);
  const Tensor& lengths = whole.defined() ? whole : documents;
  check_pooling(dx, "dx", documents, lengths, dout, "dout", kOp);
  const Device device = common_device(kOp, dout, documents, lengths, dx);
  dispatch<cpu::pool_mean_backward, cuda::pool_mean_backward, meta::pool_mean_backward>(
      device, dout, documents, dx, first, lengths);
}

void normalize_rows(const Tensor& x, float length, Tensor y, Tensor inverse_norm) {
  constexpr const char* kOp = "normalize_rows";
  const OpRange range(kOp);
  check_norms(x, "x", y, length, inverse_norm, kOp);
  require_disjoint(y, "y", x, "x", kOp);
  const Device device = common_device(kOp, x, y, inverse_norm);
  dispatch<cpu::normalize_rows, cuda::normalize_rows, meta::normalize_rows>(device, x, length, y,
                                                                            inverse_norm);
}

void normalize_rows_backward(const Tensor& dy, const Tensor& y, float length,
                             const Tensor& inverse_norm, Tensor dx) {
  constexpr const char* kOp = "normalize_rows_backward";
  const OpRange range(kOp);
  check_norms(dx, "dx", y, length, inverse_norm, kOp);
  require_like(dy, y, kOp, "dy");
  require_disjoint(dx, "dx", y, "y", kOp);
  require_disjoint(dx, "dx", dy, "dy", kOp);
  const Device device = common_device(kOp, dy, y, inverse_norm, dx);
  dispatch<cpu::normalize_rows_backward, cuda::normalize_rows_backward,
           meta::normalize_rows_backward>(device, dy, y, length, inverse_norm, dx);
}

}  // namespace tessera
