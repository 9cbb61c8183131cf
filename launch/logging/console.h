#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/checkpoint/save/save.h"
#include "launch/metrics/step_result.h"
#include "launch/support/text/redrawn_line.h"

namespace tessera {

/// What all ranks do in a second.
struct Speed {
  double tokens = 0.0;  ///< without padding
  double padded_tokens = 0.0;
  double flops = 0.0;  ///< as of model_flops()
  /// Model FLOPs utilisation: `flops` / what the GPUs can do at most, where that is known.
  std::optional<double> mfu = {};
  double seconds = 0.0;            ///< that this was measured over
  double data_wait_seconds = 0.0;  ///< of them, in which steps waited for their data
};

/// What a run prints, on rank 0: a line each log interval, and on a terminal a bar that moves
/// with the steps. Other ranks have a silent one.
class Console {
 public:
  Console(bool prints, int64_t total_steps);

  void line(const std::string& text);
  void warning(const std::string& text);

  /// Whether progress() would draw now: there is a bar, and it was not drawn just before.
  bool progress_is_due() const { return bar_.is_due(); }
  /// Redraws the bar, if it is due.
  void progress(const StepResult& result, double seconds_left);
  void step(const StepResult& result, const Speed& speed, double seconds_left);
  void evaluation(int64_t step, const Evaluation& found);
  void saved(const SavedCheckpoint& saved);

 private:
  bool prints_;
  int64_t total_steps_;
  RedrawnLine bar_;
};

/// The sum of the seconds of recent steps, for speed and time left.
class StepClock {
 public:
  /// `peak_flops` is what all ranks can do in a second, where that is known.
  explicit StepClock(std::optional<double> peak_flops = {}) : peak_flops_(peak_flops) {}

  void add(const StepResult& result);
  /// Over the steps since the last call of restart().
  Speed speed() const;
  /// From a running mean over about the last hundred steps.
  double seconds_left(int64_t steps_left) const {
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
  double mean_seconds_ = 0.0;
};

}  // namespace tessera
