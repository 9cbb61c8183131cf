#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "launch/train/trainer.h"

namespace tessera {

/// Tokens a second of all ranks, without padding and with it.
struct Speed {
  double tokens = 0.0;
  double padded_tokens = 0.0;
};

/// What a run prints, on rank 0: a line each log interval, and on a terminal a bar that moves
/// with the steps. Other ranks have a silent one.
class Console {
 public:
  Console(bool prints, int64_t total_steps);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void line(const std::string& text);
  void warning(const std::string& text);

  /// Redraws the bar, where there is one, if that was not done just before.
  void progress(const StepResult& result, double seconds_left);
  void step(const StepResult& result, const Speed& speed, double seconds_left);
  void evaluation(int64_t step, const Evaluation& found);

 private:
  void clear_bar();

  bool prints_;
  bool watched_;
  int64_t total_steps_;
  bool bar_drawn_ = false;
  std::chrono::steady_clock::time_point last_drawing_;
};

/// "1h02m", "3m20s", "12s".
std::string human_duration(double seconds);

/// The sum of the seconds of recent steps, for speed and time left.
class StepClock {
 public:
  void add(const StepResult& result);
  /// Over the steps since the last call of restart().
  Speed speed() const {
    return seconds_ > 0.0 ? Speed{tokens_ / seconds_, padded_tokens_ / seconds_} : Speed{};
  }
  /// From a running mean over about the last hundred steps.
  double seconds_left(int64_t steps_left) const {
    return mean_seconds_ * static_cast<double>(steps_left);
  }
  void restart() { tokens_ = padded_tokens_ = seconds_ = 0.0; }

 private:
  double tokens_ = 0.0;
  double padded_tokens_ = 0.0;
  double seconds_ = 0.0;
  double mean_seconds_ = 0.0;
};

}  // namespace tessera
