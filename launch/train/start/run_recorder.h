#pragma once

#include <functional>
#include <optional>

#include "core/trace/flight_recorder.h"
#include "launch/config/run_config.h"
#include "parallel/communicators/communicator.h"
#include "parallel/watchdog/hang_watchdog.h"

namespace tessera {

/// A run's flight recorder on this rank, in RUN/flight_recorder, and its watchdog.
class RunRecorder {
 public:
  /// Removes the recorders of earlier starts. Throws on all ranks if a file cannot be created.
  /// Collective; run.dir must exist and be locked.
  RunRecorder(const RunConfig& config, Communicator& world);

  /// Records what the calling thread does in `body`, and how it ends.
  void run(const std::function<void()>& body);

 private:
  std::optional<FlightRecorder> recorder_;
  std::optional<HangWatchdog> watchdog_;
};

}  // namespace tessera
