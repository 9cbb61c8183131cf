#include "launch/logging/step_timeline.h"

#include <fmt/format.h>

#include "launch/support/files/folders.h"
#include "launch/support/files/whole_files.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_name.h"

namespace tessera {
namespace {

/// This rank's steady-clock reading at a wall-clock time that rank 0 chose.
Timeline::Clock::time_point common_origin(Communicator& world) {
  using std::chrono::nanoseconds, std::chrono::system_clock;
  const auto now = [] {
    return std::chrono::duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  };
  int64_t origin = now();
  world.broadcast(Tensor(&origin, {1}, DType::i64, kCpu), 0);
  const auto steady = Timeline::Clock::now();
  return steady - nanoseconds(now() - origin);
}

}  // namespace

StepTimeline::StepTimeline(const RunConfig& config, Communicator& world)
    : log_(config.log),
      folder_(std::filesystem::path(config.run.dir) / "timeline"),
      world_(world),
      owner_{world.rank(), host_name(), {}} {
  if (log_.timeline_steps > 0) owner_.origin = common_origin(world);
}

Timeline* StepTimeline::next(int64_t step) {
  if (log_.timeline_steps == 0 || written_) return nullptr;
  if (begun_++ < log_.timeline_skip) return nullptr;
  if (first_ == 0) first_ = step;
  last_ = step;
  return &timeline_;
}

bool StepTimeline::is_whole() const {
  return !written_ && log_.timeline_steps > 0 && begun_ == log_.timeline_skip + log_.timeline_steps;
}

std::string StepTimeline::write_if_whole(bool run_ends) {
  if (log_.timeline_steps == 0 || written_ || !(run_ends || is_whole())) return "";
  written_ = true;
  if (first_ == 0) {
    return fmt::format(
        "no timeline was written: the run took {} steps, but log.timeline_skip is {}", begun_,
        log_.timeline_skip);
  }
  // An earlier timeline may have files of more ranks.
  all_or_none(world_, [&] {
    if (world_.rank() != 0) return;
    make_folders(folder_);
    delete_earlier();
  });
  all_or_none(world_, [&] { write_file(); });
  return summary();
}

void StepTimeline::delete_earlier() const {
  std::vector<std::filesystem::path> earlier;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank_") && name.ends_with(".json")) earlier.push_back(entry.path());
  }
  for (const std::filesystem::path& path : earlier) std::filesystem::remove(path);
}

void StepTimeline::write_file() const {
  const std::string path = (folder_ / fmt::format("rank_{}.json", owner_.rank)).string();
  write_whole_files({{path, to_text(trace_events(timeline_, owner_))}}, Replace::own);
}

std::string StepTimeline::summary() const {
  const int64_t steps = last_ - first_ + 1;
  std::string text =
      fmt::format("timeline of steps {} to {} written to {}", first_, last_, folder_.string());
  const GradientReductionTime time = gradient_reduction_time(timeline_);
  if (time.pending == 0.0) return text;
  const auto milliseconds = [&](double seconds) {
    return 1e3 * seconds / static_cast<double>(steps);
  };
  return text + fmt::format(
                    ": per step, gradient reductions were pending for {:.0f} ms, and this rank "
                    "waited for them for {:.0f} ms",
                    milliseconds(time.pending), milliseconds(time.waited));
}

}  // namespace tessera
