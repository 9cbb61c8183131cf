#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace tessera {

/// Whether widen_to_float() supports a dtype: fp32, bf16 and fp64.
constexpr bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64;
}

/// to[i] = the i-th element of `from` as fp32. The conversion is exact except for fp64, which is
/// rounded. `from` may be unaligned. Throws unless is_float(dtype).
void widen_to_float(DType dtype, const std::byte* from, float* to, int64_t count);

/// As above, from IEEE 754 half precision, which is not a DType because no op supports it.
void widen_half_to_float(const std::byte* from, float* to, int64_t count);

}  // namespace tessera
