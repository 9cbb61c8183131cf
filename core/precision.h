#pragma once

#include <string_view>

#include "core/dtype.h"

namespace tessera {

/// What a model stores and how it multiplies: its dtype, and whether linear layers of blocks
/// multiply 8-bit codes (core/ops/fp8.h).
struct Precision {
  DType dtype = DType::f32;  ///< of weights and activations: f32 or bf16
  bool fp8 = false;          ///< only with bf16

  constexpr Precision() = default;
  constexpr Precision(DType of_all) : dtype(of_all) {}
  static constexpr Precision with_fp8() {
    Precision result = DType::bf16;
    result.fp8 = true;
    return result;
  }
  constexpr operator DType() const { return dtype; }

  bool operator==(const Precision&) const = default;
  friend constexpr bool operator==(const Precision& a, DType b) { return a.dtype == b; }
};

constexpr std::string_view to_string(const Precision& precision) {
  return precision.fp8 ? "fp8" : to_string(precision.dtype);
}

}  // namespace tessera
