#include "launch/logging/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/communicators/traffic.h"

namespace tessera {
namespace {

using Clock = Timeline::Clock;
using Track = Timeline::Track;

constexpr int kStepsThread = 0, kBackgroundThread = 1;

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

Json metadata(const char* what, int rank, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json arguments(const Timeline::Range& range) {
  return range.bytes == 0 ? Json::object() : Json{{"bytes", range.bytes}};
}

bool is_of_gradients(const Timeline::Range& range) {
  return range.name.ends_with(fmt::format(" of {}", to_string(Traffic::gradients)));
}

/// The total time covered by at least one of the ranges.
Clock::duration covered(std::vector<std::pair<Clock::time_point, Clock::time_point>> ranges) {
  std::ranges::sort(ranges);
  Clock::duration sum{0};
  Clock::time_point end = Clock::time_point::min();
  for (const auto& [first, last] : ranges) {
    if (last <= end) continue;
    sum += last - std::max(first, end);
    end = last;
  }
  return sum;
}

}  // namespace

Json trace_events(const Timeline& timeline, const TimelineOwner& owner) {
  Json events = Json::array();
  events.push_back(metadata("process_name", owner.rank, kStepsThread,
                            fmt::format("rank {} on {}", owner.rank, owner.host)));
  events.push_back(metadata("thread_name", owner.rank, kStepsThread, "steps"));
  events.push_back(metadata("thread_name", owner.rank, kBackgroundThread, "background"));
  int64_t pending = 0;
  for (const Timeline::Range& range : timeline.ranges()) {
    const double begin = microseconds(range.begin - owner.origin);
    const double length = microseconds(range.end - range.begin);
    Json event = {{"name", range.name}, {"ts", begin}, {"pid", owner.rank}};
    event["args"] = arguments(range);
    if (range.track != Track::pending) {
      event["ph"] = "X";
      event["dur"] = length;
      event["tid"] = range.track == Track::steps ? kStepsThread : kBackgroundThread;
      event["cat"] = "range";
      events.push_back(event);
      continue;
    }
    event["cat"] = "collective";
    event["tid"] = kStepsThread;
    event["id"] = fmt::format("{}.{}", owner.rank, pending++);
    event["ph"] = "b";
    events.push_back(event);
    event["ph"] = "e";
    event["ts"] = begin + length;
    events.push_back(event);
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

GradientReductionTime gradient_reduction_time(const Timeline& timeline) {
  std::vector<std::pair<Clock::time_point, Clock::time_point>> pending;
  Clock::duration waited{0};
  for (const Timeline::Range& range : timeline.ranges()) {
    if (!is_of_gradients(range)) continue;
    if (range.track == Track::pending) {
      pending.emplace_back(range.begin, range.end);
    } else {
      waited += range.end - range.begin;
    }
  }
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  return {seconds(covered(std::move(pending))), seconds(waited)};
}

}  // namespace tessera
