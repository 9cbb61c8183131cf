#include "core/ops/fp8.h"

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void check_fp8_dims(const char* op, const char* name, const Tensor& tensor, int dims) {
  require(tensor.defined(), "{}: {} is undefined", op, name);
  bool fits = tensor.shape().rank() >= dims;
  for (int i = 1; fits && i <= dims; ++i) fits = tensor.dim(-i) % kFp8Block == 0;
  require(fits, "{}: {} is {}, but its last {} must be a multiple of {}", op, name,
          describe(tensor), dims == 1 ? "dim" : "two dims", kFp8Block);
}

Device check_fp8_codes(const char* op, const Tensor& source, const Fp8Matrix& out,
                       const Shape& codes, const Shape& scales) {
  require_dtype(source, DType::bf16, op, "the source");
  require_shape(out.codes, codes, op, "codes");
  require_shape(out.scales, scales, op, "scales");
  require_dtype(out.codes, DType::u8, op, "codes");
  require_dtype(out.scales, DType::f32, op, "scales");
  require_disjoint(out.codes, "codes", source, "the source", op);
  require_disjoint(out.scales, "scales", source, "the source", op);
  require_disjoint(out.scales, "scales", out.codes, "codes", op);
  require(reinterpret_cast<uintptr_t>(source.raw()) % 16 == 0,
          "{}: the source must start at a multiple of 16 bytes", op);
  return common_device(op, source, out.codes, out.scales);
}

}  // namespace

Shape fp8_row_codes(const Tensor& x) { return {round_up(rows_of(x), kFp8Rows), x.dim(-1)}; }
Shape fp8_row_scales(const Tensor& x) {
  return {x.dim(-1) / kFp8Block, round_up(rows_of(x), kFp8Rows)};
}
Shape fp8_weight_scales(int64_t rows, int64_t columns) {
  return {rows / kFp8Block, fp8_scale_columns(columns)};
}

void quantize_fp8_rows(const Tensor& x, const Fp8Matrix& out) {
  constexpr const char* kOp = "quantize_fp8_rows";
  const OpRange range(kOp);
  check_fp8_dims(kOp, "x", x, 1);
  const Device device = check_fp8_codes(kOp, x, out, fp8_row_codes(x), fp8_row_scales(x));
  if (x.numel() == 0) return;
  dispatch<cpu::quantize_fp8_rows, cuda::quantize_fp8_rows, meta::quantize_fp8_rows>(device, x,
                                                                                     out);
}

void quantize_fp8_weights(const Tensor& w, MatrixLayout layout, const Fp8Matrix& out) {
  constexpr const char* kOp = "quantize_fp8_weights";
  const OpRange range(kOp);
  check_fp8_dims(kOp, "w", w, 2);
  require(w.shape().rank() == 2, "{}: w must be (N, K), but is {}", kOp, describe(w));
  const bool by_rows = layout == MatrixLayout::rows;
  const int64_t rows = w.dim(by_rows ? 0 : 1), columns = w.dim(by_rows ? 1 : 0);
  const Device device =
      check_fp8_codes(kOp, w, out, {rows, columns}, fp8_weight_scales(rows, columns));
  if (w.numel() == 0) return;
  dispatch<cpu::quantize_fp8_weights, cuda::quantize_fp8_weights, meta::quantize_fp8_weights>(
      device, w, layout, out);
}

void linear_fp8(const Fp8Matrix& x, const Fp8Matrix& w, const Tensor& bias, Tensor y) {
  constexpr const char* kOp = "linear_fp8";
  const OpRange range(kOp);
  check_fp8_dims(kOp, "x", x.codes, 1);
  check_fp8_dims(kOp, "w", w.codes, 2);
  require_dtype(y, DType::bf16, kOp, "y");
  const int64_t n = w.codes.dim(0), k = w.codes.dim(1);
  require(
      x.codes.dim(-1) == k && y.dim(-1) == n && x.codes.dim(0) == round_up(rows_of(y), kFp8Rows),
      "{}: codes {} and result {} do not fit weights {}: they must be (M, K), (..., N) and "
      "(N, K), with M rows padded to a multiple of {}",
      kOp, describe(x.codes), describe(y), describe(w.codes), kFp8Rows);
  require_shape(x.scales, {k / kFp8Block, x.codes.dim(0)}, kOp, "the scales of x");
  require_shape(w.scales, fp8_weight_scales(n, k), kOp, "the scales of w");
  for (const Tensor* codes : {&x.codes, &w.codes}) {
    require_dtype(*codes, DType::u8, kOp, "codes");
    require_disjoint(y, "y", *codes, "codes", kOp);
  }
  if (bias.defined()) {
    require_shape(bias, {n}, kOp, "bias");
    require_dtype(bias, DType::bf16, kOp, "bias");
  }
  const Device device = common_device(kOp, x.codes, x.scales, w.codes, w.scales, bias, y);
  if (y.numel() == 0) return;
  dispatch<cpu::linear_fp8, cuda::linear_fp8, meta::linear_fp8>(device, x, w, bias, y);
}

}  // namespace tessera
