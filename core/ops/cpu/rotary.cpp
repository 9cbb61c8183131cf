#include "core/ops/rotary.h"

#include <cmath>

#include "core/ops/cpu/row_blocks.h"
#include "core/ops/cpu/vector_math.h"
#include "core/ops/device_ops.h"

namespace tessera::cpu {

// Angles in double: at late positions fp32 has lost their last digits.
void rotary_table(const Tensor& positions, const RotaryFormula& formula, Tensor table) {
  constexpr int64_t kSineCost = 16;  // a sine costs as much as copying this many elements
  const int64_t d = table.dim(1), half = d / 2;
  const int32_t* position = positions.data<int32_t>();
  float* to = table.data<float>();
  parallel_for(positions.numel(), grain_for(kSineCost * d), [=](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = formula.scaled(std::exp(formula.log_frequency(i, half)), i);
      for (int64_t n = begin; n < end; ++n) {
        const double angle = position[n] * frequency;
        to[n * d + i] = static_cast<float>(formula.amplitude * std::cos(angle));
        to[n * d + half + i] = static_cast<float>(formula.amplitude * std::sin(angle));
      }
    }
  });
}

void rotary(const Tensor& table, float direction, int64_t heads, Tensor in) {
  const int64_t d = in.dim(3), half = d / 2, row = in.dim(2) * d;
  const float* angles = table.data<float>();
  dispatch_float(in.dtype(), [&]<typename T>() {
    T* rows = in.data<T>();
    parallel_for(table.dim(0), grain_for(heads * d), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const float *cosines = angles + n * d, *sines = cosines + half;
        for (int64_t h = 0; h < heads; ++h) {
          T *x = rows + n * row + h * d, *y = x + half;
#pragma omp simd
          for (int64_t i = 0; i < half; ++i) {
            const float a = to_float(x[i]), b = to_float(y[i]), sine = direction * sines[i];
            x[i] = from_float<T>(a * cosines[i] - b * sine);
            y[i] = from_float<T>(b * cosines[i] + a * sine);
          }
        }
      }
    });
  });
}

}  // namespace tessera::cpu
