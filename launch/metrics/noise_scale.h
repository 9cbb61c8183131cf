#pragma once

#include <cstdint>
#include <optional>

#include "launch/checkpoint/run_state.h"

namespace tessera {

/// Squared norms of the mean gradient of a few samples and of a step's whole batch.
struct GradientSquares {
  double few = 0.0, all = 0.0;
  int64_t few_samples = 1, all_samples = 2;  ///< few_samples < all_samples
};

/// The simple noise scale of the gradient, B_simple = tr(Σ) / |G|², in samples (McCandlish et al.,
/// "An Empirical Model of Large-Batch Training", 2018, appendix A.1). Of each measurement, with b
/// and B samples,
///
///     |G|² = (B |G_B|² − b |G_b|²) / (B − b),   tr(Σ) = (|G_b|² − |G_B|²) / (1/b − 1/B)
///
/// are unbiased. Each is averaged over the measurements with exponentially decreasing weights, and
/// the noise scale is their ratio, because the mean of ratios would be biased.
class NoiseScale {
 public:
  static constexpr double kMemory = 0.95;  ///< weight of the earlier average: about 20 measurements

  /// Ignores squares that are not finite.
  void add(const GradientSquares& squares);

  /// nullopt before the first measurement, and while the noise outweighs what the averages know:
  /// one of them is not positive.
  std::optional<double> value() const;

  /// The averages, for a checkpoint; none before the first measurement.
  const std::optional<GradientNoise>& averages() const { return averages_; }
  void restore(const std::optional<GradientNoise>& averages) { averages_ = averages; }

 private:
  std::optional<GradientNoise> averages_;
};

}  // namespace tessera
