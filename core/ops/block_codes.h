#pragma once

#include <cstdint>

#include "core/tensor.h"

/// Numbers in 8 bits each, for an optimizer's moments (Dettmers et al., "8-bit Optimizers via
/// Block-wise Quantization", 2022): kCodeBlock neighboring numbers share a scale, the largest
/// magnitude among them. The code of a number is a place in a map of 256 ascending numbers, of
/// which the one nearest to number / scale is taken.
namespace tessera {

inline constexpr int64_t kCodeBlock = 256;

/// The dynamic maps of bitsandbytes (create_dynamic_map): 0, 1, and for each of the powers of ten
/// 10⁻⁶, 10⁻⁵, ..., 1 the centers of equal parts of [0.1, 1] times that power, twice as many as for
/// the power before. Two differences let encoding be repeated, and keep updates small:
///
///  - The lowest number of `signed_numbers` is −1 instead of −0.993, so that the largest magnitude
///    of a block is exact, whatever its sign.
///  - A positive number never becomes 0 in `unsigned_numbers`, but at least 3.25e-7 × the scale: no
///    update divides by eps alone because the second moment was rounded to 0.
enum class CodeMap : uint8_t {
  signed_numbers,    ///< 1, 2, 4, ..., 64 parts, and the same below 0
  unsigned_numbers,  ///< 2, 4, 8, ..., 128 parts
};

/// A map: `value` ascends, and number × 1 / scale has code c if it is in (middle[c − 1],
/// middle[c]].
struct CodeTable {
  static constexpr int kCodes = 256;
  float value[kCodes];
  float middle[kCodes - 1];
};

const CodeTable& code_table(CodeMap map);

/// The scale of a block whose largest magnitude this is: 0 if it is so small that fp32 could not
/// represent its smaller numbers as precisely; all of them then become 0.
constexpr float code_scale(float largest) { return largest < 0x1p-100f ? 0.0f : largest; }

/// The code of a number that was divided by its scale.
constexpr int32_t nearest_code(const float* middle, float x) {
  int32_t code = 0;
  for (int32_t step = CodeTable::kCodes / 2; step > 0; step /= 2) {
    code += x > middle[code + step - 1] ? step : 0;
  }
  return code;
}

/// x (n) fp32, codes (n) uint8, scales (⌈n / kCodeBlock⌉) fp32; other shapes of n elements may
/// stand for (n). They may not alias. The bits are the same on all devices.
void quantize_blocks(const Tensor& x, CodeMap map, Tensor codes, Tensor scales);

/// x = what the codes stand for. quantize_blocks(x) returns the same codes and scales again, if
/// they came from there.
void dequantize_blocks(const Tensor& codes, const Tensor& scales, CodeMap map, Tensor x);

}  // namespace tessera
