#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tessera {

// Rotary position embedding (Su et al., "RoFormer", 2021) in Hugging Face's layout (rotate_half):
// dims i and i + D/2 of a head form a pair. At position p it is rotated by p × f_i, where
// f_i = base^(−2i/D) unless the frequencies are scaled.

/// How frequencies are scaled for texts longer than those of the first training: not at all, all by
/// the same factor (Chen et al., "Position Interpolation", 2023), or as in Llama 3 or YaRN (Peng et
/// al., 2023), where those of short wavelengths stay as they are.
enum class RotaryScaling : uint8_t { none, linear, llama3, yarn };

/// The frequencies of a rotary embedding. The names are those of `rope_parameters` in Hugging Face.
struct RotaryFrequencies {
  double base = 10000.0;
  RotaryScaling scaling = RotaryScaling::none;
  double factor = 1.0;            ///< by which the longest wavelengths grow
  int64_t original_length = 0;    ///< positions of the first training; llama3 and yarn
  double low_freq_factor = 1.0;   ///< llama3: wavelengths above original_length / this grow fully
  double high_freq_factor = 4.0;  ///< llama3: those below original_length / this do not grow
  double beta_fast = 32.0;        ///< yarn: frequencies with more turns in original_length stay
  double beta_slow = 1.0;         ///< yarn: those with fewer turns are scaled fully
  double attention_factor = 0.0;  ///< yarn: multiplies sines and cosines; 0: 0.1 ln(factor) + 1

  bool operator==(const RotaryFrequencies&) const = default;
};

/// RotaryFrequencies as one formula for the kernels: f becomes f × (kept + (1 − kept) / factor),
/// where kept = of_frequency × f + of_index × i + constant, clamped to [0, 1].
struct RotaryFormula {
  double log_base;
  double inverse_factor = 1.0;
  double of_frequency = 0.0, of_index = 0.0, constant = 0.0;
  double amplitude = 1.0;  ///< of sines and cosines

  /// The logarithm of the unscaled frequency i.
  constexpr double log_frequency(int64_t i, int64_t half) const {
    return -log_base * static_cast<double>(i) / static_cast<double>(half);
  }
  /// The scaled frequency i, from the unscaled one.
  constexpr double scaled(double frequency, int64_t i) const {
    const double share = of_frequency * frequency + of_index * static_cast<double>(i) + constant;
    const double kept = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
    return frequency * (kept + (1.0 - kept) * inverse_factor);
  }
};

/// The formula for heads of `head_dim` columns.
RotaryFormula rotary_formula(const RotaryFrequencies& frequencies, int64_t head_dim);

/// Writes table (N, D) fp32: the cosines of each row's D/2 angles, then their sines, both times the
/// attention factor of YaRN. positions (N) int32. Computed once per step for all layers. D must be
/// even.
void rotary_table(const Tensor& positions, const RotaryFrequencies& frequencies, Tensor table);

/// Rotates the first `heads` heads of x (B, T, H, D) in place, fp32 or bf16, computed in fp32: the
/// queries and keys of attention's qkv; values, which follow, are unchanged. table (B × T, D) comes
/// from rotary_table.
void rotary_forward(const Tensor& table, int64_t heads, Tensor x);

/// Rotates their gradients back, in place: the transpose of rotary_forward.
void rotary_backward(const Tensor& table, int64_t heads, Tensor dx);

}  // namespace tessera
