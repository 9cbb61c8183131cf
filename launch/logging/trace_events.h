#pragma once

#include <chrono>
#include <string>

#include "core/trace/timeline.h"
#include "launch/support/text/json.h"

namespace tessera {

/// The rank that a timeline belongs to.
struct TimelineOwner {
  int rank = 0;
  std::string host;
  Timeline::Clock::time_point origin;  ///< time 0 of all ranks, on this rank's clock
};

/// Converts a timeline to the format of chrome://tracing and Perfetto (ui.perfetto.dev): an object
/// with `traceEvents`. The process is the rank; it has a thread for its steps and one for
/// background progress of collectives. Pending collectives are asynchronous events. Times are in
/// microseconds. Concatenating the lists of several ranks yields one timeline. Source: Trace Event
/// Format, Google, 2016.
Json trace_events(const Timeline& timeline, const TimelineOwner& owner);

/// How long the sum of the gradients over the data ranks was pending, and how long the rank waited
/// for it, in seconds. The rest was overlapped with the rank's own work.
struct GradientReductionTime {
  double pending = 0.0;  ///< at least one bucket was pending
  double waited = 0.0;
};
GradientReductionTime gradient_reduction_time(const Timeline& timeline);

}  // namespace tessera
