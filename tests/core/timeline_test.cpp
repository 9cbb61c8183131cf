#include "core/trace/timeline.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/trace/trace.h"

namespace tessera {
namespace {

TEST(Timeline, RecordsRangesOfThreadsInScope) {
  Timeline timeline;
  { const TraceRange before("before"); }
  {
    const Timeline::Scope scope(&timeline);
    const TraceRange outer("outer");
    { const TraceRange inner("inner", 12); }
    {
      const Timeline::Scope none(nullptr);
      const TraceRange range("of nobody");
    }
    std::thread([] { const TraceRange range("of another thread"); }).join();
  }
  { const TraceRange after("after"); }

  const auto& ranges = timeline.ranges();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].name, "inner");
  EXPECT_EQ(ranges[0].bytes, 12);
  EXPECT_EQ(ranges[1].name, "outer");
  EXPECT_EQ(ranges[1].track, Timeline::Track::steps);
  EXPECT_LE(ranges[1].begin, ranges[0].begin);
  EXPECT_LE(ranges[0].begin, ranges[0].end);
  EXPECT_LE(ranges[0].end, ranges[1].end);
}

TEST(Timeline, IsThreadSafe) {
  Timeline timeline;
  const auto add_some = [&] {
    const Timeline::Scope scope(&timeline);
    for (int i = 0; i < 1000; ++i) const TraceRange range("range");
  };
  std::thread first(add_some), second(add_some);
  first.join();
  second.join();
  EXPECT_EQ(timeline.ranges().size(), 2000u);
}

}  // namespace
}  // namespace tessera
