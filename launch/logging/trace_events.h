#pragma once

#include <chrono>
#include <string>

#include "core/trace/timeline.h"
#include "launch/support/text/json.h"

namespace tessera {

/// Whose timeline it is.
struct TimelineOwner {
  int rank = 0;
  std::string host;
  Timeline::Clock::time_point origin;  ///< time 0 of all ranks, by this one's clock
};

/// A timeline as chrome://tracing and Perfetto (ui.perfetto.dev) read it: an object with
/// `traceEvents`, whose process is the rank, with a thread for its steps and one for what moves
/// collectives on beside them; collectives under way are asynchronous events. Times are in
/// microseconds. The lists of several ranks put together are a timeline of all. Source: Trace Event
/// Format, Google, 2016.
Json trace_events(const Timeline& timeline, const TimelineOwner& owner);

/// How long the sum of the gradients over the data ranks was under way, and how much of that the
/// rank waited: the rest was hidden behind its own work. In seconds.
struct GradientSumTime {
  double under_way = 0.0;  ///< some bucket was
  double waited = 0.0;
};
GradientSumTime gradient_sum_time(const Timeline& timeline);

}  // namespace tessera
