#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace tessera {

/// When a run with checkpoint.interval: auto saves before its last step: every kShortest, or less
/// often, so that saving takes at most kMostOfTime of the time. Pure but for the arguments.
class TimedSaves {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  static constexpr double kMostOfTime = 0.05;
  static constexpr Seconds kShortest{300.0}, kLongestBeforeMeasured{600.0};

  /// `assumed`: the seconds of a save before one was measured.
  TimedSaves(bool enabled, double assumed, Clock::time_point start)
      : enabled_(enabled), seconds_(assumed), last_(start) {}

  bool is_due(Clock::time_point now) const { return enabled_ && now - last_ >= interval(); }

  Seconds interval() const {
    const Seconds affordable(seconds_ * (1.0 / kMostOfTime - 1.0));
    const Seconds longest = measured_ ? Seconds::max() : kLongestBeforeMeasured;
    return std::clamp(affordable, kShortest, longest);
  }

  /// After any save, which took that long, as if no step had overlapped with it. nullopt: it
  /// failed.
  void saved(Clock::time_point now, std::optional<double> seconds) {
    last_ = now;
    if (!seconds) return;
    seconds_ = *seconds;
    measured_ = true;
  }

 private:
  bool enabled_;
  double seconds_;
  bool measured_ = false;
  Clock::time_point last_;
};

}  // namespace tessera
