#include "launch/tools/status/status.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using Kind = ProcessState::Kind;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1'000 * kSecond;

struct Rank {
  Kind process;
  RankEnd end = RankEnd::running;
  RunPhase phase = RunPhase::training;
  int64_t heartbeat = kNow;
};

TEST(RunState, SaysWhatTheRunDoesOrHowItEnded) {
  constexpr int64_t kLongAgo = kNow - 100 * kSecond;
  const struct {
    std::vector<Rank> ranks;
    std::string state;
  } kCases[] = {
      {{}, "not known"},
      {{{Kind::running}, {Kind::sleeping}}, "training"},
      {{{Kind::running, RankEnd::running, RunPhase::saving}}, "saving"},
      {{{Kind::gone, RankEnd::finished}, {Kind::running, RankEnd::running, RunPhase::evaluating}},
       "evaluating"},
      {{{Kind::gone, RankEnd::finished}, {Kind::gone, RankEnd::finished}}, "ended in order"},
      {{{Kind::gone, RankEnd::finished}, {Kind::gone}}, "died"},
      {{{Kind::zombie}}, "died"},
      {{{Kind::unknown}}, "training"},
      {{{Kind::unknown, RankEnd::running, RunPhase::training, kLongAgo}, {Kind::running}},
       "silent"},
      {{{Kind::gone, RankEnd::failed}, {Kind::gone}}, "failed"},
      {{{Kind::gone, RankEnd::failed}, {Kind::running}}, "failed"},
      // The process that hangs outlives the run: stopped, or on a host that is lost.
      {{{Kind::gone, RankEnd::hung}, {Kind::stopped}}, "hung"},
      {{{Kind::unknown, RankEnd::running, RunPhase::training, kLongAgo},
        {Kind::gone, RankEnd::hung}},
       "hung"},
  };
  for (const auto& test : kCases) {
    std::vector<RankView> views(test.ranks.size());
    for (size_t i = 0; i < views.size(); ++i) {
      const Rank& rank = test.ranks[i];
      views[i].state.kind = rank.process;
      views[i].ring.emplace();
      views[i].ring->end = rank.end;
      views[i].ring->phase = rank.phase;
      views[i].ring->heartbeat = rank.heartbeat;
    }
    EXPECT_EQ(run_state(views, kNow), test.state) << "case " << &test - kCases;
  }
}

}  // namespace
}  // namespace tessera
