#pragma once

#include <cstdint>

#include "core/ops/dropout.h"

namespace tessera::cuda {

/// The step and the first row of a dropout, passed to kernels by value: the host's, or those that
/// Dropout::rng_offset holds when the kernel runs.
struct DropoutRng {
  uint32_t host_step;
  int64_t host_first_row;
  const int64_t* rng_offset;  ///< null: the host's
  int64_t sequence_rows;

  __device__ uint32_t step() const {
    return rng_offset == nullptr ? host_step : static_cast<uint32_t>(rng_offset[0]);
  }
  __device__ int64_t first_row() const {
    return rng_offset == nullptr ? host_first_row : rng_offset[1] * sequence_rows;
  }
};

inline DropoutRng rng_of(const Dropout& dropout) {
  return {dropout.key.step, dropout.first_row,
          dropout.rng_offset.defined() ? dropout.rng_offset.data<int64_t>() : nullptr,
          dropout.sequence_rows};
}

}  // namespace tessera::cuda
