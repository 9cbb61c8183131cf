#include "launch/train/straggler_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/checked.h"

namespace tessera {
namespace {

constexpr size_t kMostSteps = 100;
constexpr int kResults = 3;
constexpr int64_t kSteps = 10;
constexpr double kStepsShare = 0.8;
constexpr double kWaitingShare = 0.1;

}  // namespace

SlowestRank find_slowest(const std::vector<double>& waits, size_t steps, double seconds) {
  const size_t ranks = waits.size() / steps;
  std::vector<int64_t> slowest_in(ranks, 0);
  std::vector<double> waited_for(ranks, 0.0);
  for (size_t step = 0; step < steps; ++step) {
    const auto wait = [&](size_t rank) { return waits[rank * steps + step]; };
    size_t slowest = 0;
    double sum = 0.0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      sum += wait(rank);
      if (wait(rank) < wait(slowest)) slowest = rank;
    }
    ++slowest_in[slowest];
    waited_for[slowest] += sum - static_cast<double>(ranks) * wait(slowest);
  }
  const auto most = std::ranges::max_element(slowest_in);
  const auto rank = static_cast<size_t>(most - slowest_in.begin());
  const double time = seconds * static_cast<double>(ranks);
  return {static_cast<int>(rank), *most, time > 0.0 ? waited_for[rank] / time : 0.0};
}

void StragglerWatch::add_step(double seconds, double waited) {
  if (steps_.size() == kMostSteps) steps_.erase(steps_.begin());
  steps_.push_back({seconds, waited});
}

std::optional<SlowestRank> StragglerWatch::gather(Communicator& world) {
  last_steps_ = 0;
  if (world.size() == 1 || steps_.empty()) return std::nullopt;
  std::vector<double> mine, all(steps_.size() * static_cast<size_t>(world.size()));
  double seconds = 0.0;
  for (const Step& step : steps_) {
    mine.push_back(step.waited);
    seconds += step.seconds;
  }
  world.all_gather(Tensor(mine.data(), {narrow<int64_t>(mine.size())}, DType::f64, kCpu),
                   Tensor(all.data(), {narrow<int64_t>(all.size())}, DType::f64, kCpu));
  last_ = find_slowest(all, mine.size(), seconds);
  last_steps_ = mine.size();
  steps_.clear();
  return last_;
}

std::string StragglerWatch::take_warning() {
  const auto steps = static_cast<int64_t>(last_steps_);
  const bool often = static_cast<double>(last_.steps) >= kStepsShare * static_cast<double>(steps);
  if (steps == 0 || !often || last_.share < kWaitingShare || last_.rank != suspect_) {
    suspect_ = steps > 0 && often && last_.share >= kWaitingShare ? last_.rank : -1;
    results_ = 0;
    suspect_steps_ = seen_steps_ = 0;
    share_sum_ = 0.0;
  }
  if (suspect_ < 0) return "";
  ++results_;
  suspect_steps_ += last_.steps;
  seen_steps_ += steps;
  share_sum_ += last_.share;
  const bool known = std::ranges::find(named_, suspect_) != named_.end();
  if (results_ < kResults || seen_steps_ < kSteps || known) return "";
  named_.push_back(suspect_);
  return fmt::format(
      "rank {} was the slowest in {} of the last {} steps, and the ranks spent {:.0f}% of their "
      "time waiting for it. `tessera status` shows its host; look there for other programs, "
      "swapping, and processors that run hot or slow",
      suspect_, suspect_steps_, seen_steps_, 100.0 * share_sum_ / results_);
}

}  // namespace tessera
