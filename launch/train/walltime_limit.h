#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "launch/config/sections.h"

namespace tessera {

/// When this start of a run must have ended, and whose limit that is.
struct WalltimeEnd {
  std::chrono::steady_clock::time_point time;
  std::string name;  ///< "run.walltime"
};

/// The end that run.walltime says, counted from the start of this process or, with `is_automatic`,
/// that of the Slurm job (SLURM_JOB_END_TIME); nullopt without a limit.
std::optional<WalltimeEnd> walltime_end(const RunSection& run, bool is_automatic);

/// The seconds that a save is assumed to take before one was measured: 12 bytes per parameter at
/// 100 MB/s.
double assumed_save_seconds(int64_t parameters);

/// Decides when a run must save and end so that it ends in time: while the time left suffices for
/// another step, and after it for a save, as long as these took so far. Ranks may decide
/// differently; they must agree (StopSignal::requested()). Pure but for the arguments.
class WalltimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  WalltimeLimit(std::optional<WalltimeEnd> end, double save_seconds)
      : end_(std::move(end)), assumed_save_(save_seconds) {}

  /// Whether the run must save and end after the step that has just ended. Measures the time since
  /// the last call, which is that of a step with all that comes with it. `evaluates`: an evaluation
  /// or samples would follow.
  bool must_end(Clock::time_point now, bool evaluates);

  /// Measured lengths. That of an evaluation, or of samples, does not count as part of a step.
  void add_save(double seconds);
  void add_evaluation(Clock::duration length);

  double seconds_left(Clock::time_point now) const;
  const std::string& name() const { return end_->name; }

 private:
  std::optional<WalltimeEnd> end_;
  double assumed_save_;
  double save_ = 0.0;        // the longest measured
  double step_ = 0.0;        // the longest of late: a past one counts 1% less in each step
  double evaluation_ = 0.0;  // the longest of all after one step
  Clock::duration evaluated_{0};
  std::optional<Clock::time_point> last_;
  int64_t steps_ = 0;
};

}  // namespace tessera
