#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

/// out (1) i64 = Σ checksum_term(i, bits of x[i]) mod 2⁶⁴; x fp32, bf16 or u8 of any shape. Two
/// tensors that differ in one element always have different sums. All devices agree, because the
/// order of the sum does not matter.
void checksum(const Tensor& x, Tensor out);

/// The bits, times an odd number that depends on the index.
constexpr uint64_t checksum_term(int64_t index, uint32_t bits) {
  uint64_t weight = static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u;
  weight = (weight ^ weight >> 32) * 0xd6e8feb86659fd93u;
  return (weight | 1u) * bits;
}

}  // namespace tessera
