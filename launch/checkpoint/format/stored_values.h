#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace tessera {

/// Whether widen_to_float() takes a dtype: fp32, bf16 and fp64.
constexpr bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64;
}

/// to[i] = the i-th element of `from` as fp32, exactly but for fp64, which is rounded. `from` may
/// lie at any address. Throws for a dtype that is_float() is false for.
void widen_to_float(DType dtype, const std::byte* from, float* to, int64_t count);

/// The same for IEEE 754's half precision, which is no DType: no op takes it.
void widen_half_to_float(const std::byte* from, float* to, int64_t count);

}  // namespace tessera
