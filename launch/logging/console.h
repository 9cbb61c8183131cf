#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/checkpoint/save/save.h"
#include "launch/metrics/model_sample.h"
#include "launch/metrics/step_result.h"
#include "launch/support/text/redrawn_line.h"
#include "launch/support/text/sparkline.h"

namespace tessera {

/// Rates per second, over all ranks.
struct Speed {
  double tokens = 0.0;  ///< without padding
  double padded_tokens = 0.0;
  double flops = 0.0;  ///< see model_flops()
  /// Model FLOPs utilization: `flops` / peak FLOP/s of the GPUs, if known.
  std::optional<double> mfu = {};
  double seconds = 0.0;            ///< length of the measurement
  double data_wait_seconds = 0.0;  ///< part of `seconds` that steps waited for data
};

/// Console output of a run: one line per log interval, and on a terminal a progress bar. Rank 0
/// prints; the other ranks' consoles are silent. A run continues without its output.
class Console {
 public:
  Console(bool prints, int64_t total_steps);

  void line(const std::string& text);
  void warning(const std::string& text);

  /// Whether progress() would draw now: there is a bar, and its last update is not too recent.
  bool progress_is_due() const { return bar_.is_due(); }
  /// Redraws the bar, with a sparkline of the loss, if it is due.
  void progress(const StepResult& result, std::optional<double> seconds_left);
  void step(const StepResult& result, const Speed& speed, std::optional<double> seconds_left);
  void evaluation(int64_t step, const Evaluation& found);
  /// Each prompt and, indented, its text. Nothing in them drives a terminal.
  void samples(int64_t step, const std::vector<ModelSample>& samples);
  void saved(const SavedCheckpoint& saved);

 private:
  bool prints_;
  bool lost_lines_ = false;
  int64_t total_steps_;
  RedrawnLine bar_;
  Sparkline losses_;
};

/// Accumulates the times of recent steps, for speed and time left.
class StepClock {
 public:
  /// `peak_flops` is the peak of all ranks together, in FLOP/s, if known.
  explicit StepClock(std::optional<double> peak_flops = {}) : peak_flops_(peak_flops) {}

  void add(const StepResult& result);
  /// Speed over the steps since the last restart().
  Speed speed() const;
  /// Estimated from a running mean over about the last hundred steps, in which a pause counts
  /// little, and the first steps of a start not once there are others;
  /// nullopt while only steps are known that say little.
  std::optional<double> seconds_left(int64_t steps_left) const {
    if (results_ < kWarmUp && all_seconds_ < kLongWarmUp) return std::nullopt;
    return mean_seconds_ * static_cast<double>(steps_left);
  }
  void restart() { tokens_ = padded_tokens_ = flops_ = seconds_ = data_wait_seconds_ = 0.0; }

 private:
  std::optional<double> peak_flops_;
  double tokens_ = 0.0;
  double padded_tokens_ = 0.0;
  double flops_ = 0.0;
  double seconds_ = 0.0;
  double data_wait_seconds_ = 0.0;
  static constexpr int kWarmUp = 3;  // results with steps that allocate, compile and tune
  static constexpr double kLongWarmUp = 60.0;

  double mean_seconds_ = 0.0, mean_steps_ = 0.0, all_seconds_ = 0.0;
  int results_ = 0;
};

}  // namespace tessera
