#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/trace/timeline.h"
#include "launch/config/run_config.h"
#include "launch/logging/trace_events.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// The timeline of some steps of a run, `log.timeline_steps` after the first `log.timeline_skip`
/// that are taken here, in RUN/timeline/rank_N.json of each rank. All calls are made by all ranks.
class StepTimeline {
 public:
  /// Rank 0's clock is that of all ranks, as far as their hosts' clocks agree.
  StepTimeline(const RunConfig& config, Communicator& world);

  /// What the step that comes next, number `step` of the run (counted from 1), adds to; null where
  /// that is none.
  Timeline* next(int64_t step);

  /// After each step, and with `run_ends` at the end of the run: writes the files once the last
  /// step has been taken, and says so on rank 0, in a line; else "". Throws on all ranks if one can
  /// not write.
  std::string write_if_whole(bool run_ends);

 private:
  void delete_earlier() const;
  void write_file() const;
  std::string summary() const;

  const LogSection& log_;
  std::filesystem::path folder_;
  Communicator& world_;
  TimelineOwner owner_;
  Timeline timeline_;
  int64_t begun_ = 0;  // steps, of those that are taken here
  int64_t first_ = 0, last_ = 0;
  bool written_ = false;
};

}  // namespace tessera
