#include "launch/train/optimizer/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {
namespace {

/// From 1 at progress 0 to 0 at progress 1.
double decayed(DecayStyle style, double progress) {
  switch (style) {
    case DecayStyle::linear:
      return 1.0 - progress;
    case DecayStyle::cosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    case DecayStyle::minus_sqrt:
      return 1.0 - std::sqrt(progress);
  }
  return 1.0;
}

/// How far the last `decay_steps` of a run are done after this step: 1 after the last.
double decay_progress(int64_t decay_steps, int64_t step, int64_t steps) {
  const int64_t length = decay_steps > 0 ? decay_steps : (steps + 9) / 10;
  const auto done = static_cast<double>(step + 1 - (steps - length));
  return std::clamp(done / static_cast<double>(length), 0.0, 1.0);
}

}  // namespace

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
      return optimizer.min_lr + span * decayed(DecayStyle::cosine, progress);
    case LrSchedule::warmup_stable_decay: {
      const double late = decay_progress(optimizer.decay_steps, step, steps);
      return optimizer.min_lr + span * decayed(optimizer.decay_style, late);
    }
    case LrSchedule::inverse_sqrt: {
      const auto first = static_cast<double>(std::max<int64_t>(1, warmup));
      return std::max(optimizer.min_lr,
                      optimizer.lr * std::sqrt(first / static_cast<double>(step + 1)));
    }
    case LrSchedule::polynomial:
      return optimizer.min_lr + span * std::pow(1.0 - progress, optimizer.power);
  }
  return optimizer.lr;
}

}  // namespace tessera
