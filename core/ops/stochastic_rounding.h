#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"
#include "core/global_index.h"
#include "core/random.h"
#include "core/tensor.h"

namespace tessera {

/// How the elements of a tensor, or of a piece of it, are rounded to bf16: up or down at random,
/// each way with the probability that makes the mean exact (Gupta et al., "Deep Learning with
/// Limited Numerical Precision", 2015). What is exact in bf16 stays as it is. Element i is rounded
/// by the word of element index(begin + i) of the stream of `key`, so that it has the same bits on
/// every layout.
struct StochasticRounding {
  RandomKey key;
  GlobalIndex index = {};
  int64_t begin = 0;  ///< of the piece, in the shard

  constexpr uint64_t element(int64_t i) const { return static_cast<uint64_t>(index(begin + i)); }
};

/// `value` rounded to bf16, away from zero with the probability of what bf16 cuts off, in 65536ths:
/// of the random word its lower half is taken. Infinities and what is NaN stay so; beyond bf16's
/// largest number comes infinity, as in rounding to nearest.
constexpr bfloat16 round_stochastically(float value, uint32_t word) {
  const auto u = std::bit_cast<uint32_t>(value);
  const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
  bfloat16 result{};
  result.bits = static_cast<uint16_t>(is_nan ? (u >> 16) | 0x40u : (u + (word & 0xffffu)) >> 16);
  return result;
}

/// y = x rounded. x fp32, y bf16, as many elements, which do not overlap.
void round_stochastically(const Tensor& x, const StochasticRounding& rounding, Tensor y);

}  // namespace tessera
