#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/trace/timeline.h"
#include "launch/config/run_config.h"
#include "launch/logging/trace_events.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Records a timeline of `log.timeline_steps` steps after the first `log.timeline_skip` steps of
/// this process. Each rank writes RUN/timeline/rank_N.json. All calls are collective.
class StepTimeline {
 public:
  /// Aligns all timelines to rank 0's clock, as far as the hosts' clocks agree.
  StepTimeline(const RunConfig& config, Communicator& world);

  /// The timeline to record step `step` of the run (counted from 1) into; null if that step is not
  /// recorded.
  Timeline* next(int64_t step);

  /// Whether the last step to record has ended, and no file has been written.
  bool is_whole() const;

  /// Writes the files after the last recorded step; call it after each step, and with `run_ends` at
  /// the end of the run. Returns a line about it on rank 0, otherwise "". Throws on all ranks if
  /// one rank cannot write.
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
  int64_t begun_ = 0;  // steps of this process
  int64_t first_ = 0, last_ = 0;
  bool written_ = false;
};

}  // namespace tessera
