#include "launch/metrics/noise_scale.h"

#include <cmath>

#include "core/error.h"

namespace tessera {

void NoiseScale::add(const GradientSquares& squares) {
  const auto b = static_cast<double>(squares.few_samples);
  const auto all = static_cast<double>(squares.all_samples);
  require(0.0 < b && b < all, "noise scale: there are {} of {} samples", squares.few_samples,
          squares.all_samples);
  const double signal = (all * squares.all - b * squares.few) / (all - b);
  const double noise = (squares.few - squares.all) / (1.0 / b - 1.0 / all);
  if (!std::isfinite(signal) || !std::isfinite(noise)) return;
  if (!averages_) {
    averages_ = {signal, noise};
    return;
  }
  averages_->signal += (1.0 - kMemory) * (signal - averages_->signal);
  averages_->noise += (1.0 - kMemory) * (noise - averages_->noise);
}

std::optional<double> NoiseScale::value() const {
  if (!averages_ || averages_->signal <= 0.0 || averages_->noise <= 0.0) return std::nullopt;
  return averages_->noise / averages_->signal;
}

}  // namespace tessera
