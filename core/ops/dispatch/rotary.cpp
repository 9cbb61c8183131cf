#include "core/ops/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/ops/dispatch/checks.h"
#include "core/ops/dispatch/dispatch.h"

namespace tessera {
namespace {

void turn(const Tensor& table, float direction, int64_t heads, const Tensor& x, const char* name,
          const char* op) {
  require_float(x, op, name);
  require(x.shape().rank() == 4 && x.dim(3) % 2 == 0,
          "{}: {} must have shape (B, T, H, D) with an even D, but is {}", op, name, describe(x));
  require(0 <= heads && heads <= x.dim(2), "{}: {} of the {} heads of {} are to be rotated", op,
          heads, x.dim(2), name);
  require_shape(table, {x.dim(0) * x.dim(1), x.dim(3)}, op, "table");
  require_dtype(table, DType::f32, op, "table");
  require_disjoint(x, name, table, "table", op);
  const Device device = common_device(op, table, x);
  dispatch<cpu::rotary, cuda::rotary, meta::rotary>(device, table, direction, heads, x);
}

/// YaRN's index of the frequency that makes this many turns within the original length.
double index_of_turns(const RotaryFrequencies& f, double turns, double head_dim) {
  return head_dim *
         std::log(static_cast<double>(f.original_length) / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(f.base));
}

void check(const RotaryFrequencies& f, const char* op) {
  require(f.base > 0.0, "{}: the base must be positive, but is {}", op, f.base);
  if (f.scaling == RotaryScaling::none) return;
  require(f.factor > 0.0, "{}: the factor must be positive, but is {}", op, f.factor);
  if (f.scaling == RotaryScaling::linear) return;
  require(f.original_length > 0, "{}: the original length must be positive, but is {}", op,
          f.original_length);
  require(f.scaling == RotaryScaling::yarn || f.high_freq_factor > f.low_freq_factor,
          "{}: high_freq_factor must be above low_freq_factor, but they are {} and {}", op,
          f.high_freq_factor, f.low_freq_factor);
}

}  // namespace

RotaryFormula rotary_formula(const RotaryFrequencies& f, int64_t head_dim) {
  RotaryFormula formula{.log_base = std::log(f.base), .inverse_factor = 1.0 / f.factor};
  switch (f.scaling) {
    case RotaryScaling::none:
      formula.constant = 1.0;
      break;
    case RotaryScaling::linear:
      break;
    case RotaryScaling::llama3: {
      const double span = f.high_freq_factor - f.low_freq_factor;
      formula.of_frequency =
          static_cast<double>(f.original_length) / (2.0 * std::numbers::pi * span);
      formula.constant = -f.low_freq_factor / span;
      break;
    }
    case RotaryScaling::yarn: {
      const auto d = static_cast<double>(head_dim);
      const double low = std::max(std::floor(index_of_turns(f, f.beta_fast, d)), 0.0);
      double high = std::min(std::ceil(index_of_turns(f, f.beta_slow, d)), d - 1.0);
      if (high == low) high += 0.001;  // as transformers avoids the division by zero
      formula.of_index = -1.0 / (high - low);
      formula.constant = 1.0 + low / (high - low);
      formula.amplitude =
          f.attention_factor > 0.0 ? f.attention_factor : 0.1 * std::log(f.factor) + 1.0;
      break;
    }
  }
  return formula;
}

void rotary_table(const Tensor& positions, const RotaryFrequencies& frequencies, Tensor table) {
  constexpr const char* kOp = "rotary_table";
  const OpRange range(kOp);
  require_dtype(positions, DType::i32, kOp, "positions");
  require_dtype(table, DType::f32, kOp, "table");
  require(table.shape().rank() == 2 && table.dim(0) == positions.numel() && table.dim(1) % 2 == 0,
          "{}: table must have shape ({}, D) with an even D, a row for each of positions {}, but "
          "is {}",
          kOp, positions.numel(), describe(positions), describe(table));
  check(frequencies, kOp);
  const Device device = common_device(kOp, positions, table);
  dispatch<cpu::rotary_table, cuda::rotary_table, meta::rotary_table>(
      device, positions, rotary_formula(frequencies, table.dim(1)), table);
}

void rotary_forward(const Tensor& table, int64_t heads, Tensor x) {
  const OpRange range("rotary_forward");
  turn(table, 1.0f, heads, x, "x", "rotary_forward");
}

void rotary_backward(const Tensor& table, int64_t heads, Tensor dx) {
  const OpRange range("rotary_backward");
  turn(table, -1.0f, heads, dx, "dx", "rotary_backward");
}

}  // namespace tessera
