#pragma once

#include <cstdint>

#include "core/ops/dropout.h"

namespace tessera::cuda {

/// The step and the first row of a dropout, as kernels are told of them, by value: themselves, or
/// where they are read when the kernel runs.
struct DropoutMoment {
  uint32_t told_step;
  int64_t told_first_row;
  const int64_t* at;  ///< as Dropout::moment; may be null
  int64_t sequence_rows;

  __device__ uint32_t step() const {
    return at == nullptr ? told_step : static_cast<uint32_t>(at[0]);
  }
  __device__ int64_t first_row() const {
    return at == nullptr ? told_first_row : at[1] * sequence_rows;
  }
};

inline DropoutMoment moment_of(const Dropout& dropout) {
  return {dropout.key.step, dropout.first_row,
          dropout.moment.defined() ? dropout.moment.data<int64_t>() : nullptr,
          dropout.sequence_rows};
}

}  // namespace tessera::cuda
