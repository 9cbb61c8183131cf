#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace tessera {

/// Calls body(value) with `value` as an element of that dtype.
template <typename Body>
void with_value(DType dtype, double value, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body(static_cast<float>(value));
    case DType::bf16:
      return body(bfloat16(static_cast<float>(value)));
    case DType::f64:
      return body(value);
    case DType::i32:
      return body(static_cast<int32_t>(value));
    case DType::i64:
      return body(static_cast<int64_t>(value));
    case DType::u8:
      return body(static_cast<uint8_t>(value));
  }
}

}  // namespace tessera
