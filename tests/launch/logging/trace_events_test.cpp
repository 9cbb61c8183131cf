#include "launch/logging/trace_events.h"

#include <gtest/gtest.h>

#include <map>

namespace tessera {
namespace {

using Track = Timeline::Track;
using std::chrono::milliseconds;

class TraceEvents : public ::testing::Test {
 protected:
  Timeline::Clock::time_point at(int ms) const { return origin + milliseconds(ms); }

  Timeline::Clock::time_point origin = Timeline::Clock::now();
  Timeline timeline;
};

TEST_F(TraceEvents, MatchChromeFormat) {
  timeline.add("block", Track::steps, at(3), at(5));
  timeline.add("all_reduce", Track::background, at(4), at(6), 1000);
  timeline.add("all_reduce of gradients", Track::pending, at(2), at(7), 1000);
  const Json all = trace_events(timeline, {3, "node7", origin});
  std::map<std::string, Json> found;  // by phase, and by name where there are several
  for (const Json& event : all.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 3);
    const std::string phase = event.at("ph");
    found[phase == "X" ? event.at("name").get<std::string>() : phase] = event;
    if (event.at("name") == "process_name") {
      EXPECT_EQ(event["args"]["name"], "rank 3 on node7");
    }
  }
  const Json& block = found.at("block");
  EXPECT_EQ(block.at("ts"), 3000.0);
  EXPECT_EQ(block.at("dur"), 2000.0);
  const Json& reduce = found.at("all_reduce");
  EXPECT_NE(reduce.at("tid"), block.at("tid"));
  EXPECT_EQ(reduce.at("args").at("bytes"), 1000);
  const Json &begin = found.at("b"), &end = found.at("e");
  EXPECT_EQ(begin.at("ts"), 2000.0);
  EXPECT_EQ(end.at("ts"), 7000.0);
  for (const char* same : {"name", "cat", "id"}) EXPECT_EQ(begin.at(same), end.at(same));
}

TEST_F(TraceEvents, MeasureHiddenGradientCommunication) {
  timeline.add("all_reduce of gradients", Track::pending, at(0), at(10));
  timeline.add("all_reduce of gradients", Track::pending, at(5), at(20));  // overlaps
  timeline.add("reduce_scatter of gradients", Track::pending, at(30), at(40));
  timeline.add("all_reduce of backward", Track::pending, at(20), at(30));  // not a gradient
  timeline.add("wait for all_reduce of gradients", Track::steps, at(17), at(20));
  timeline.add("wait for all_reduce of backward", Track::steps, at(22), at(30));
  const GradientReductionTime time = gradient_reduction_time(timeline);
  // Exactly representable in nanoseconds, so that only the division to seconds rounds.
  EXPECT_DOUBLE_EQ(time.pending, 0.030);
  EXPECT_DOUBLE_EQ(time.waited, 0.003);
}

}  // namespace
}  // namespace tessera
