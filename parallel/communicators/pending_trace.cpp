#include "parallel/communicators/pending_trace.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/trace/timeline.h"
#include "parallel/communicators/traffic.h"

namespace tessera {
namespace {

using Clock = Timeline::Clock;
using Track = Timeline::Track;

class TracedCollective final : public PendingCollective {
 public:
  TracedCollective(std::unique_ptr<PendingCollective> pending, Timeline& timeline, std::string name,
                   int64_t bytes, Clock::time_point begin)
      : pending_(std::move(pending)),
        timeline_(timeline),
        name_(std::move(name)),
        bytes_(bytes),
        begin_(begin) {}

  void wait() override {
    if (ended_) return;
    const Clock::time_point begin = Clock::now();
    pending_->wait();
    timeline_.add("wait for " + name_, Track::steps, begin, Clock::now(), bytes_);
    end();
  }

  bool progress() override {
    if (!ended_ && pending_->progress()) end();
    return ended_;
  }

 private:
  void end() {
    timeline_.add(name_, Track::pending, begin_, Clock::now(), bytes_);
    ended_ = true;
  }

  std::unique_ptr<PendingCollective> pending_;
  Timeline& timeline_;
  std::string name_;
  int64_t bytes_;
  Clock::time_point begin_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<PendingCollective> start_traced(
    std::string_view name, int64_t bytes,
    const std::function<std::unique_ptr<PendingCollective>()>& start) {
  Timeline* timeline = Timeline::current();
  if (timeline == nullptr) return start();
  const Clock::time_point begin = Clock::now();
  auto pending = start();
  return std::make_unique<TracedCollective>(
      std::move(pending), *timeline,
      fmt::format("{} of {}", name, to_string(TrafficScope::current())), bytes, begin);
}

}  // namespace tessera
