#include "launch/tools/supervise/start_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <system_error>

#include "core/trace/flight_recorder.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

constexpr double kGone = 1.5;         // seconds in which the launcher may end the run by itself
constexpr double kEnding = 60.0;      // ranks wait half a minute for the one that knows the cause
constexpr double kLongestTick = 2.0;  // a longer one: this process was stopped itself

bool is_gone(const RankView& view) {
  using Kind = ProcessState::Kind;
  return view.state.kind == Kind::gone || view.state.kind == Kind::zombie;
}

}  // namespace

StartWatch::StartWatch(const RunSection& run, double start_timeout)
    : folder_(flight_folder(run.dir)),
      host_(host_name()),
      start_timeout_(start_timeout),
      silence_timeout_(run.hang_timeout == 0 ? 0.0 : static_cast<double>(run.hang_timeout) + 30.0),
      began_(now_in_nanoseconds()) {}

std::vector<RankView> StartWatch::look() const {
  std::error_code error;
  int ranks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (!entry.path().filename().string().starts_with("rank_")) continue;
    try {
      ranks = std::max(ranks, read_snapshot(entry.path()).ranks);
    } catch (const std::exception&) {
      continue;  // it is being created or replaced
    }
    break;
  }
  if (ranks == 0) return {};
  std::vector<RankView> views = view_ranks(folder_.string(), ranks, host_);
  const auto is_earlier = [&](const RankView& view) {
    return view.ring && view.ring->started < began_;
  };
  if (std::ranges::any_of(views, is_earlier)) return {};
  ranks_ = ranks;
  return views;
}

void StartWatch::kill_ranks() {
  killed_ = true;
  for (const RankView& view : look()) {
    const bool is_alive = view.ring && view.state.kind != ProcessState::Kind::unknown;
    if (is_alive && !is_gone(view)) ::kill(view.process, SIGKILL);
  }
}

StartWatch::Verdict StartWatch::check() {
  const auto now = Clock::now();
  const double tick = std::min(kLongestTick, std::chrono::duration<double>(now - last_).count());
  last_ = now;
  const std::vector<RankView> views = look();
  bool has_begun = false, any_ended = false, any_gone = false, all_here = !views.empty();
  int64_t heartbeat = 0;
  std::optional<int> dead;  // without a message
  for (const RankView& view : views) {
    if (!view.ring) {
      all_here = false;
      continue;
    }
    const RankEnd end = view.ring->end;
    all_here = all_here && view.host == host_;
    has_begun = has_begun || view.ring->step > 0 || end != RankEnd::running;
    any_ended = any_ended || end != RankEnd::running || is_gone(view);
    any_gone = any_gone || (is_gone(view) && end != RankEnd::finished);
    heartbeat = std::max(heartbeat, view.ring->heartbeat);
    if (!dead && is_gone(view) && end == RankEnd::running) dead = view.rank;
  }
  waited_ = has_begun ? 0.0 : waited_ + tick;
  ended_ = any_ended ? ended_ + tick : 0.0;
  gone_ = any_gone ? gone_ + tick : 0.0;
  quiet_ = heartbeat == heartbeat_ ? quiet_ + tick : 0.0;
  heartbeat_ = heartbeat;
  // The first that is seen: once one is dead, others are killed.
  if (dead && !observed_.dead_rank && !killed_) observed_.dead_rank = dead;
  if (ended_ > kEnding) return Verdict::terminate;
  if (all_here && gone_ > kGone && !killed_) return Verdict::kill;
  if (start_timeout_ > 0.0 && waited_ > start_timeout_) {
    observed_.hang = fmt::format("no rank has begun a step within {:.0f} s", start_timeout_);
    return Verdict::terminate;
  }
  if (has_begun && !any_ended && silence_timeout_ > 0.0 && quiet_ > silence_timeout_) {
    observed_.hang = fmt::format("all ranks have been silent for {:.0f} s", quiet_);
    return all_here && !killed_ ? Verdict::kill : Verdict::terminate;
  }
  return Verdict::fine;
}

}  // namespace tessera
