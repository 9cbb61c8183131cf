#include "launch/train/optimizer/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {

double learning_rate(const OptimizerSection& optimizer, int64_t step, int64_t steps) {
  const int64_t warmup = optimizer.warmup_steps;
  if (step < warmup) {
    return optimizer.lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  const auto last = static_cast<double>(std::max<int64_t>(1, steps - 1 - warmup));
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / last);
  const double span = optimizer.lr - optimizer.min_lr;
  switch (optimizer.schedule) {
    case LrSchedule::constant:
      return optimizer.lr;
    case LrSchedule::linear:
      return optimizer.lr - span * progress;
    case LrSchedule::cosine:
      return optimizer.min_lr + span * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  }
  return optimizer.lr;
}

}  // namespace tessera
