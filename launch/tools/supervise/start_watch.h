#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/config/sections.h"
#include "launch/tools/supervise/run_end.h"
#include "parallel/watchdog/hang_report.h"

namespace tessera {

/// Watches the flight recorders of a start of a run for what neither its ranks nor the launcher end
/// by themselves: a rank's death that the launcher does not notice, a start that never begins its
/// first step, and ranks that are all stopped.
class StartWatch {
 public:
  enum class Verdict : uint8_t {
    fine,
    terminate,  ///< the command must end
    kill,       ///< all ranks are on this host, and those left wait in vain: kill_ranks()
  };

  /// Recorders of earlier starts are ignored.
  StartWatch(const RunSection& run, double start_timeout);

  /// Call it about twice a second.
  Verdict check();

  /// Kills the ranks of this host that are left, so that the launcher ends and says why.
  void kill_ranks();

  /// The recorders of this start; empty if there are none yet.
  std::vector<RankView> look() const;
  const Observed& observed() const { return observed_; }
  /// Number of ranks of this start, as far as known.
  int ranks() const { return ranks_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path folder_;
  std::string host_;
  double start_timeout_, silence_timeout_;
  int64_t began_;        // nanoseconds since 1970
  double quiet_ = 0.0;   // seconds without a new heartbeat
  double waited_ = 0.0;  // for the first step
  double ended_ = 0.0;   // since a rank has ended while the command has not
  double gone_ = 0.0;    // since a rank's process has ended badly
  bool killed_ = false;  // by this
  int64_t heartbeat_ = 0;
  Clock::time_point last_ = Clock::now();
  mutable int ranks_ = 0;
  Observed observed_;
};

}  // namespace tessera
