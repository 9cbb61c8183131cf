#pragma once

#include <bit>
#include <cstdint>

#include "core/checked.h"
#include "core/ops/matrix.h"
#include "core/tensor.h"

/// Products of numbers in 8 bits, E4M3 (Micikevicius et al., "FP8 Formats for Deep Learning",
/// 2022): a sign, 4 bits of exponent, 3 of fraction, no infinity, at most 448. Neighboring numbers
/// along the sum of a product share a scale: 128 of a row of activations or gradients, 128 × 128 of
/// weights (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024). So a code depends on one row or one
/// block, and is the same on every layout of ranks. Scales are powers of two: code × scale is exact
/// in bf16.
namespace tessera {

inline constexpr int64_t kFp8Block = 128;
/// Rows of codes are padded with zeros to a multiple of this, which cuBLASLt requires.
inline constexpr int64_t kFp8Rows = 16;

/// The number nearest to x, ties to even; the largest if x is larger. Not finite numbers become
/// NaN, so that a step with one is not finite either.
constexpr uint8_t fp8_code(float x) {
  constexpr uint32_t kNan = 0x7f, kLargest = 0x7e, kFractionBits = 20, kExponentShift = 120 << 3;
  const auto bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffffu;
  const uint32_t odd = magnitude >> kFractionBits & 1u;
  const uint32_t normal = ((magnitude + 0x7ffffu + odd) >> kFractionBits) - kExponentShift;
  // The last place of 2¹⁴ in fp32 is that of numbers below E4M3's normal ones, 2⁻⁹.
  const auto subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u;
  uint32_t code = magnitude < 0x3c800000u ? subnormal : normal;  // 2⁻⁶
  code = code < kLargest ? code : kLargest;
  code = magnitude < 0x7f800000u ? code : kNan;
  return static_cast<uint8_t>(code | (bits >> 24 & 0x80u));
}

constexpr float fp8_value(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu, sign = uint32_t{code & 0x80u} << 24;
  if (magnitude == 0x7f) return std::bit_cast<float>(0x7fc00000u | sign);
  const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f
                                    : std::bit_cast<float>((magnitude << 20) + (120u << 23));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

/// The scale of numbers whose largest finite magnitude this is, and its inverse: the least power of
/// two by which all are at most 448, and at least 2⁻¹⁰⁰, so that both are normal.
struct Fp8Scale {
  float scale, inverse;

  constexpr explicit Fp8Scale(float largest) {
    const auto bits = std::bit_cast<uint32_t>(largest);
    // 448 = 1.75 × 2⁸
    const int32_t above = (bits & 0x7fffffu) > 0x600000u ? 1 : 0;
    const int32_t exponent = static_cast<int32_t>(bits >> 23) - 127 - 8 + above;
    const int32_t bounded = exponent > -100 ? exponent : -100;
    scale = std::bit_cast<float>(static_cast<uint32_t>(127 + bounded) << 23);
    inverse = std::bit_cast<float>(static_cast<uint32_t>(127 - bounded) << 23);
  }
};

/// |x|, or 0 if x is not finite.
constexpr float finite_magnitude(float x) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(x) & 0x7fffffffu;
  return std::bit_cast<float>(magnitude < 0x7f800000u ? magnitude : 0u);
}

/// The codes of a matrix, uint8, and their scales, fp32, in cuBLASLt's layouts.
struct Fp8Matrix {
  Tensor codes, scales;
};

/// Where the scales of rows are. A product of M rows is one of the first multiple of kFp8Rows and
/// one of the other rows, padded. Each has scales (K / 128, its rows), one after the other.
struct Fp8RowScales {
  int64_t whole, blocks;  ///< rows of the first product; K / 128

  constexpr Fp8RowScales(int64_t rows, int64_t columns)
      : whole(rows / kFp8Rows * kFp8Rows), blocks(columns / kFp8Block) {}

  constexpr int64_t index(int64_t row, int64_t block) const {
    return row < whole ? block * whole + row : blocks * whole + block * kFp8Rows + (row - whole);
  }
};

/// Where the scales of weights are: (rows / 128, K / 128), whose rows have room for a
/// multiple of 4, which is not written.
constexpr int64_t fp8_scale_columns(int64_t columns) {
  return round_up(ceil_div(columns, kFp8Block), 4);
}

/// The shapes of quantized rows (..., K) and weights (N, K).
Shape fp8_row_codes(const Tensor& x);
Shape fp8_row_scales(const Tensor& x);
Shape fp8_weight_scales(int64_t rows, int64_t columns);

/// x (..., K) bf16, K a multiple of 128, starting at a multiple of 16 bytes. Writes `out`, of the
/// shapes fp8_row_codes(x) and fp8_row_scales(x). The bits are the same on all devices.
void quantize_fp8_rows(const Tensor& x, const Fp8Matrix& out);

/// w (N, K) bf16, both multiples of 128, starting at a multiple of 16 bytes. Writes its codes
/// (N, K) if `layout` is rows, and those of its transpose (K, N) if it is columns, with scales of
/// fp8_weight_scales(). The bits are the same on all devices.
void quantize_fp8_weights(const Tensor& w, MatrixLayout layout, const Fp8Matrix& out);

/// y = x wᵀ + bias: x of quantize_fp8_rows, w (N, K) of quantize_fp8_weights, y (..., N) bf16 with
/// as many rows as x had before padding, bias (N) bf16 or undefined. Products are exact, sums in
/// fp32. Throws on a GPU other than Hopper.
void linear_fp8(const Fp8Matrix& x, const Fp8Matrix& w, const Tensor& bias, Tensor y);

}  // namespace tessera
