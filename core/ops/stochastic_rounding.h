#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"
#include "core/global_index.h"
#include "core/random.h"
#include "core/tensor.h"

namespace tessera {

/// How the elements of a tensor or of a part of it are rounded to bf16: up or down at random, so
/// that the expectation is exact (Gupta et al., "Deep Learning with Limited Numerical Precision",
/// 2015). Numbers that bf16 represents are unchanged. Element i uses the random word of element
/// index(begin + i) of the stream of `key`, so it has the same bits on every layout.
struct StochasticRounding {
  RandomKey key;
  GlobalIndex index = {};
  int64_t begin = 0;  ///< the part's first element in the shard

  constexpr uint64_t element(int64_t i) const { return static_cast<uint64_t>(index(begin + i)); }
};

/// `value` rounded to bf16, away from zero with the probability of the bits that bf16 cuts off, in
/// 65536ths. Uses the lower half of the random word. Infinities and NaNs stay; numbers beyond
/// bf16's largest become infinite, as in rounding to nearest.
constexpr bfloat16 round_stochastically(float value, uint32_t word) {
  const auto u = std::bit_cast<uint32_t>(value);
  const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
  bfloat16 result{};
  result.bits = static_cast<uint16_t>(is_nan ? (u >> 16) | 0x40u : (u + (word & 0xffffu)) >> 16);
  return result;
}

/// y = x, rounded. x fp32, y bf16, with the same number of elements; they may not alias.
void round_stochastically(const Tensor& x, const StochasticRounding& rounding, Tensor y);

}  // namespace tessera
