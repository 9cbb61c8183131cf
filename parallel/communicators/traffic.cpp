#include "parallel/communicators/traffic.h"

#include <array>

#include "core/checked.h"
#include "core/error.h"

namespace tessera {
namespace {

thread_local Traffic current = Traffic::counts;

}  // namespace

std::string_view to_string(Traffic traffic) {
  constexpr std::array<std::string_view, 10> kNames = {
      "counts",   "embedding", "forward", "loss",    "recompute",
      "backward", "gradients", "norm",    "weights", "optimizer"};
  return kNames.at(static_cast<size_t>(traffic));
}

TrafficScope::TrafficScope(Traffic traffic) : outer_(std::exchange(tessera::current, traffic)) {}

TrafficScope::~TrafficScope() { tessera::current = outer_; }

Traffic TrafficScope::current() { return tessera::current; }

std::string_view to_string(Collective collective) {
  constexpr std::array<std::string_view, 7> kNames = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "exchange", "barrier", "split"};
  return kNames.at(static_cast<size_t>(collective));
}

double bytes_sent(Collective collective, int ranks, int64_t bytes) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2.0 * others * static_cast<double>(bytes);
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::broadcast:
      return others * static_cast<double>(bytes);
    case Collective::exchange:
      return static_cast<double>(bytes);
    case Collective::barrier:
    case Collective::split:
      return 0.0;
  }
  return 0.0;
}

void TrafficTally::add(Collective collective, size_t bytes) {
  if (ranks_ == 1) return;
  Sum& sum = sums_[{current, collective}];
  ++sum.calls;
  sum.bytes += narrow<int64_t>(bytes);
}

void TrafficTally::repeat_since(const TrafficTally& before, int64_t times) {
  for (auto& [what, sum] : sums_) {
    const auto known = before.sums_.find(what);
    const Sum earlier = known == before.sums_.end() ? Sum{} : known->second;
    Sum more{sum.calls - earlier.calls, sum.bytes - earlier.bytes};
    const bool overflows = __builtin_mul_overflow(more.calls, times, &more.calls) ||
                           __builtin_mul_overflow(more.bytes, times, &more.bytes) ||
                           __builtin_add_overflow(earlier.calls, more.calls, &sum.calls) ||
                           __builtin_add_overflow(earlier.bytes, more.bytes, &sum.bytes);
    require(!overflows, "{} times the bytes of {} exceed 2^63 - 1", times, to_string(what.first));
  }
}

double TrafficTally::bytes_sent() const {
  double sent = 0.0;
  for (const auto& [what, sum] : sums_) {
    sent += tessera::bytes_sent(what.second, ranks_, sum.bytes);
  }
  return sent;
}

double TrafficTally::bytes_sent(Traffic traffic) const {
  double sent = 0.0;
  for (const auto& [what, sum] : sums_) {
    if (what.first == traffic) sent += tessera::bytes_sent(what.second, ranks_, sum.bytes);
  }
  return sent;
}

int64_t TrafficTally::calls() const {
  int64_t calls = 0;
  for (const auto& [what, sum] : sums_) calls += sum.calls;
  return calls;
}

int64_t TrafficTally::calls(Traffic traffic) const {
  int64_t calls = 0;
  for (const auto& [what, sum] : sums_) calls += what.first == traffic ? sum.calls : 0;
  return calls;
}

}  // namespace tessera
