#include "launch/tools/status/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr double kFreshSeconds = 10.0;  // heartbeats come every second
constexpr double kLongWait = 5.0;
constexpr size_t kLastCalls = 3;

double age(int64_t time, int64_t now) {
  return std::max(0.0, static_cast<double>(now - time) / 1e9);
}

std::string length_of(double seconds) {
  if (seconds < 120.0) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200.0) return fmt::format("{:.0f} min", seconds / 60.0);
  return fmt::format("{:.1f} h", seconds / 3600.0);
}

enum class Life : uint8_t { alive, silent, ended };

/// A rank on another host is alive while its heartbeats are fresh.
Life life_of(const RankView& view, int64_t now) {
  using Kind = ProcessState::Kind;
  if (!view.ring || view.ring->end != RankEnd::running) return Life::ended;
  if (view.state.kind == Kind::gone || view.state.kind == Kind::zombie) return Life::ended;
  if (view.state.kind != Kind::unknown) return Life::alive;
  return age(view.ring->heartbeat, now) < kFreshSeconds ? Life::alive : Life::silent;
}

std::string end_of(const RankSnapshot& ring, int64_t now) {
  const std::string when = length_of(age(ring.heartbeat, now)) + " ago";
  switch (ring.end) {
    case RankEnd::finished:
      return fmt::format("ended in order {}", when);
    case RankEnd::failed:
      return fmt::format("failed {}: {}", when,
                         ring.last_words.empty() ? "no message" : ring.last_words);
    case RankEnd::hung:
      return fmt::format("ended {}: {}", when, ring.last_words);
    case RankEnd::running:
      break;
  }
  return fmt::format("died without a message; its last heartbeat was {}", when);
}

std::string last_calls(const RankSnapshot& ring, int64_t now) {
  std::string text;
  const size_t first = ring.calls.size() - std::min(ring.calls.size(), kLastCalls);
  for (size_t i = first; i < ring.calls.size(); ++i) {
    const RecordedCollective& call = ring.calls[i];
    const bool ended = call.ended > 0;
    text += fmt::format("    {} of step {}, {} {} ago{}\n", describe(call, ring.groups[call.group]),
                        call.step, ended ? "left" : "entered and not left,",
                        length_of(age(ended ? call.ended : call.started, now)),
                        call.place.empty() ? "" : ", in " + call.place);
  }
  return text;
}

std::string lines_of(const RankView& view, int64_t now) {
  std::string text = "  " + name_of(view);
  if (!view.ring) return text + ": no flight recorder: " + view.problem + "\n";
  const RankSnapshot& ring = *view.ring;
  const Life life = life_of(view, now);
  if (life != Life::ended) {
    text += fmt::format(" is {}\n", place_of(ring));
    if (ring.is_waiting()) text += fmt::format("    {}\n", activity_of(view, now));
    return text + fmt::format("    its process {}, heartbeat {} ago\n", to_string(view.state),
                              length_of(age(ring.heartbeat, now)));
  }
  text += fmt::format(" {}\n", end_of(ring, now));
  if (ring.end == RankEnd::finished) return text;
  text += fmt::format("    it was {}\n", place_of(ring));
  if (ring.waits) text += fmt::format("    {}\n", activity_of(view, ring.heartbeat));
  if (ring.calls.empty()) return text;
  return text + "    last collectives:\n" + last_calls(ring, now);
}

bool waits_long(const std::vector<RankView>& views, int64_t now) {
  return std::ranges::any_of(views, [&](const RankView& view) {
    return view.ring && view.ring->is_waiting() && life_of(view, now) == Life::alive &&
           age(view.ring->waiting_since, now) > kLongWait;
  });
}

std::string headline(const std::string& run_dir, const std::vector<RankView>& views, int64_t now) {
  size_t alive = 0;
  std::set<std::string> hosts;
  const RankSnapshot* first = nullptr;
  for (const RankView& view : views) {
    if (life_of(view, now) == Life::alive) ++alive;
    if (!view.host.empty()) hosts.insert(view.host);
    if (first == nullptr && view.ring) first = &*view.ring;
  }
  std::string text = fmt::format("{}: {} of {} ranks alive, on {} host{}", run_dir, alive,
                                 views.size(), hosts.size(), hosts.size() == 1 ? "" : "s");
  if (first == nullptr) return text + "\n";
  text +=
      fmt::format(", started {} ago, step {}", length_of(age(first->started, now)), first->step);
  if (first->steps_here > 0) {
    text +=
        fmt::format(", {:.1f} ms for the last step", static_cast<double>(first->step_length) / 1e6);
  }
  return text + "\n";
}

/// Empty if the run has no flight recorders.
std::vector<RankView> views_of(const fs::path& run_dir) {
  const fs::path folder = flight_folder(run_dir);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with("rank_")) continue;
    const int ranks = read_snapshot(entry.path()).ranks;
    return view_ranks(folder.string(), ranks, host_name());
  }
  return {};
}

}  // namespace

std::string run_status(const std::string& run_dir, const std::vector<RankView>& views,
                       int64_t now) {
  std::string text = headline(run_dir, views, now);
  if (waits_long(views, now)) text += missing_report(views, now) + "all ranks:\n";
  for (const RankView& view : views) text += lines_of(view, now);
  return text;
}

std::string run_state(const std::vector<RankView>& views, int64_t now) {
  const RankView* alive = nullptr;
  const RankView* ended = nullptr;  // the one that says most about the end
  bool any_silent = false, any_died = false;
  for (const RankView& view : views) {
    if (!view.ring) continue;
    const Life life = life_of(view, now);
    any_silent |= life == Life::silent;
    if (life == Life::silent) continue;
    any_died |= life == Life::ended && view.ring->end == RankEnd::running;
    const RankView*& kept = life == Life::alive ? alive : ended;
    // A rank that works says more than one that waits for it, and a cause more than a death.
    const bool says_more =
        kept == nullptr ||
        (life == Life::alive ? kept->waits() && !view.waits() : view.ring->end > kept->ring->end);
    if (says_more) kept = &view;
  }
  // Either ends the whole run, even if the process of a rank still exists, for example stopped.
  if (ended != nullptr && ended->ring->end == RankEnd::failed) return "failed";
  if (ended != nullptr && ended->ring->end == RankEnd::hung) return "hung";
  if (any_silent) return "silent";
  if (alive != nullptr) {
    if (waits_long(views, now)) return "waiting";
    switch (alive->ring->phase) {
      case RunPhase::starting:
        return "starting";
      case RunPhase::training:
        return "training";
      case RunPhase::evaluating:
        return "evaluating";
      case RunPhase::saving:
        return "saving";
    }
  }
  if (ended == nullptr) return "not known";
  return any_died ? "died" : "ended in order";
}

std::string run_state(const fs::path& run_dir) {
  const std::vector<RankView> views = views_of(run_dir);
  return run_state(views, now_in_nanoseconds());
}

std::string run_status(const fs::path& run_dir) {
  require(fs::is_directory(run_dir), "{} is not a folder: pass the folder of a run",
          run_dir.string());
  const std::vector<RankView> views = views_of(run_dir);
  require(!views.empty(),
          "{} has no flight recorders: {} was not trained by this version of Tessera",
          flight_folder(run_dir).string(), run_dir.string());
  return run_status(run_dir.string(), views, now_in_nanoseconds());
}

}  // namespace tessera
