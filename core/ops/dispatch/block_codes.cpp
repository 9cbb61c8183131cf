#include "core/ops/block_codes.h"

#include "core/checked.h"
#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

/// `parts`: into how many a power of ten is divided. Returns its centers, and the next place.
constexpr int add_centers(double power, int parts, double* to, int at) {
  for (int i = 0; i < parts; ++i) to[at++] = power * (0.1 + 0.9 * (i + 0.5) / parts);
  return at;
}

constexpr CodeTable make_table(CodeMap map) {
  constexpr double kPowers[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
  const bool is_signed = map == CodeMap::signed_numbers;
  double positive[CodeTable::kCodes] = {};
  int count = 0, parts = is_signed ? 1 : 2;
  for (const double power : kPowers) {
    count = add_centers(power, parts, positive, count);
    parts *= 2;
  }
  double values[CodeTable::kCodes] = {};
  int at = 0;
  if (is_signed) {
    values[at++] = -1.0;
    for (int i = count - 1; i-- > 0;) values[at++] = -positive[i];
  }
  values[at++] = 0.0;
  for (int i = 0; i < count; ++i) values[at++] = positive[i];
  values[at] = 1.0;
  CodeTable table = {};
  for (int i = 0; i < CodeTable::kCodes; ++i) table.value[i] = static_cast<float>(values[i]);
  for (int i = 0; i + 1 < CodeTable::kCodes; ++i) {
    table.middle[i] = static_cast<float>((values[i] + values[i + 1]) / 2.0);
  }
  if (!is_signed) table.middle[0] = 0.0f;  // no positive number becomes 0
  return table;
}

constexpr CodeTable kSigned = make_table(CodeMap::signed_numbers);
constexpr CodeTable kUnsigned = make_table(CodeMap::unsigned_numbers);

Device check_blocks(const char* op, const Tensor& x, const Tensor& codes, const Tensor& scales) {
  require_dtype(x, DType::f32, op, "x");
  require_dtype(codes, DType::u8, op, "codes");
  require_dtype(scales, DType::f32, op, "scales");
  require(codes.numel() == x.numel(), "{}: codes must have the {} elements of x, but is {}", op,
          x.numel(), describe(codes));
  require_shape(scales, {ceil_div(x.numel(), kCodeBlock)}, op, "scales");
  require_disjoint(codes, "codes", x, "x", op);
  require_disjoint(scales, "scales", x, "x", op);
  require_disjoint(scales, "scales", codes, "codes", op);
  return common_device(op, x, codes, scales);
}

}  // namespace

const CodeTable& code_table(CodeMap map) {
  return map == CodeMap::signed_numbers ? kSigned : kUnsigned;
}

void quantize_blocks(const Tensor& x, CodeMap map, Tensor codes, Tensor scales) {
  const OpRange range("quantize_blocks");
  const Device device = check_blocks("quantize_blocks", x, codes, scales);
  dispatch<cpu::quantize_blocks, cuda::quantize_blocks, meta::quantize_blocks>(device, x, map,
                                                                               codes, scales);
}

void dequantize_blocks(const Tensor& codes, const Tensor& scales, CodeMap map, Tensor x) {
  const OpRange range("dequantize_blocks");
  const Device device = check_blocks("dequantize_blocks", x, codes, scales);
  dispatch<cpu::dequantize_blocks, cuda::dequantize_blocks, meta::dequantize_blocks>(
      device, codes, scales, map, x);
}

}  // namespace tessera
