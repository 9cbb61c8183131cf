#include "parallel/communicators/host/host_group.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "parallel/communicators/reduce.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a thread spins before it sleeps: about as long as sleeping and waking take.
constexpr std::chrono::microseconds kSpin{20};
/// How often a sleeping thread checks whether the other ranks are alive.
constexpr std::chrono::seconds kAliveInterval{1};
/// Largest number of calls between hosts at a time, which bounds their memory.
constexpr size_t kMostSpanning = 4;
/// First and longest sleep of a waiting thread that also has other work to advance.
constexpr std::chrono::microseconds kShortestSleep{50}, kLongestSleep{1000};

bool is_small(const CollectiveCall& call) {
  return call.collective == Collective::all_reduce && call.input.bytes() <= HostRankPart::kSmall;
}

}  // namespace

HostGroup::HostGroup(HostLayout layout, int rank, std::vector<HostMember> members,
                     std::unique_ptr<HostLink> link)
    : layout_(std::move(layout)),
      rank_(rank),
      me_(static_cast<size_t>(layout_.index_on_host(rank))),
      members_(std::move(members)),
      processes_([&] {
        std::vector<pid_t> processes;
        for (const HostMember& member : members_) processes.push_back(member.process);
        return processes;
      }()),
      link_(std::move(link)),
      exchanges_({layout_, rank_, members_, processes_, link_.get()}) {
  const size_t here = layout_.ranks_of(layout_.host_of(rank)).size();
  require(members_.size() == here && spans_hosts() == (link_ != nullptr),
          "host group: {} members of {} ranks of the host, and {} hosts", members_.size(), here,
          layout_.hosts());
}

uint64_t HostGroup::start(const CollectiveCall& call) {
  const uint64_t number = mine().started.load(std::memory_order_relaxed);
  if (number >= HostRankPart::kRing) {
    const uint64_t earlier = number - HostRankPart::kRing;
    wait_until([&] { return all_have(&HostRankPart::finished, earlier); });
  }
  const size_t place = number % HostRankPart::kRing;
  mine().calls[place] = call;
  if (is_small(call)) {
    std::memcpy(mine().small[place].data(), call.input.raw(), call.input.bytes());
  }
  timelines_[place] = Timeline::current();
  mine().started.store(number + 1);
  ring_others();
  return number;
}

bool HostGroup::done(uint64_t number) {
  throw_error();
  return is_done(number);
}

void HostGroup::wait(uint64_t number) {
  wait_until([&] { return is_done(number); });
}

bool HostGroup::done(const std::shared_ptr<HostExchange>& exchange) {
  throw_error();
  throw_error_of(*exchange);
  return exchange->left == 0;
}

void HostGroup::wait(const std::shared_ptr<HostExchange>& exchange) {
  wait_until([&] { return exchange->failed || exchange->left == 0; });
  throw_error_of(*exchange);
}

void HostGroup::throw_error_of(const HostExchange& exchange) {
  if (!exchange.failed) return;
  const std::lock_guard lock(mutex_);
  if (exchange.left > 0) {  // the memory of these messages is about to be freed
    fail_with(std::make_exception_ptr(PeerError(exchange.error)));
  }
  fail("{}", exchange.error);
}

Progressable::Progress HostGroup::make_progress() {
  if (failed_ || is_idle()) return Progress::finished;
  // A waiting thread does the work as it becomes ready.
  if (waiting_ > 0) return Progress::nothing;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !do_what_is_ready()) return Progress::nothing;
  return Progress::some;
}

bool HostGroup::all_have(std::atomic<uint64_t> HostRankPart::*count, uint64_t more_than) const {
  return std::ranges::all_of(
      members_, [&](const HostMember& member) { return (member.part->*count).load() > more_than; });
}

// On one host, a small call's memory is not needed after it has started.
bool HostGroup::is_done(uint64_t number) const {
  if (mine().finished.load() <= number) return false;
  return (!spans_hosts() && is_small(call_of(me_, number))) ||
         all_have(&HostRankPart::finished, number);
}

bool HostGroup::do_what_is_ready() {
  bool any = false;
  while (!failed_) {
    try {
      if (!do_next()) break;
    } catch (...) {
      fail_with(std::current_exception());
      break;
    }
    any = true;
  }
  if (any) event().notify();
  return any;
}

bool HostGroup::do_next() {
  if (exchanges_.advance()) return true;
  if (spans_hosts()) {
    const bool began = begin_spanning();
    return advance_spanning() || began;
  }
  const uint64_t next = mine().finished.load();
  if (!all_have(&HostRankPart::started, next)) return false;
  do_part(next);
  finish(next);
  return true;
}

bool HostGroup::begin_spanning() {
  bool any = false;
  while (spanning_.size() < kMostSpanning) {
    const uint64_t next = mine().finished.load() + spanning_.size();
    if (!all_have(&HostRankPart::started, next)) break;
    std::vector<CollectiveCall> calls = checked_calls(next);
    std::vector<const std::byte*> small;
    if (is_small(calls[me_])) {
      for (const HostMember& member : members_) {
        small.push_back(member.part->small[next % HostRankPart::kRing].data());
      }
    }
    Spanning started;
    started.begin = Clock::now();
    const SpanningPart::Group group{layout_, rank_, *link_, spare_, processes_};
    started.part = std::make_unique<SpanningPart>(group, next, std::move(calls), std::move(small));
    spanning_.push_back(std::move(started));
    has_spanning_ = true;
    any = true;
  }
  return any;
}

bool HostGroup::advance_spanning() {
  bool any = false;
  for (Spanning& call : spanning_) {
    if (call.finished) continue;
    const Progress progress = call.part->advance();
    call.finished = progress == Progress::finished;
    any |= progress != Progress::nothing;
  }
  while (!spanning_.empty() && spanning_.front().finished) {
    const uint64_t number = mine().finished.load();
    note_time(number, spanning_.front().begin);
    spanning_.pop_front();
    finish(number);
  }
  has_spanning_ = !spanning_.empty();
  return any;
}

void HostGroup::finish(uint64_t number) {
  mine().finished.store(number + 1);
  ring_others();
}

std::vector<CollectiveCall> HostGroup::checked_calls(uint64_t number) const {
  std::vector<CollectiveCall> calls;
  for (size_t member = 0; member < members_.size(); ++member) {
    calls.push_back(call_of(member, number));
  }
  for (size_t member = 0; member < calls.size(); ++member) {
    require(agree(calls[me_], calls[member]),
            "ranks {} and {} of a group of {} call different collectives: {}, and {}", rank_,
            rank_of(member), size(), describe(calls[me_]), describe(calls[member]));
  }
  return calls;
}

void HostGroup::do_part(uint64_t number) {
  const std::vector<CollectiveCall> calls = checked_calls(number);
  const auto begin = Clock::now();
  if (is_small(calls[me_])) {
    do_small(number);
  } else {
    run_part(calls, processes_, rank_);
  }
  note_time(number, begin);
}

void HostGroup::note_time(uint64_t number, Clock::time_point begin) {
  Timeline* timeline = timelines_[number % HostRankPart::kRing];
  if (timeline == nullptr) return;
  const CollectiveCall& call = call_of(me_, number);
  const bool by_owner = Timeline::current() == timeline;
  const auto track = by_owner ? Timeline::Track::steps : Timeline::Track::background;
  timeline->add(to_string(call.collective), track, begin, Clock::now(),
                static_cast<int64_t>(std::min(call.input.bytes(), call.output.bytes())));
}

// Each rank reduces all of a small all-reduce for itself, from the copies of the inputs.
void HostGroup::do_small(uint64_t number) {
  const CollectiveCall& call = call_of(me_, number);
  const DType dtype = call.output.dtype();
  std::vector<ReduceTerm> terms;
  for (const HostMember& member : members_) {
    const auto rank = static_cast<int64_t>(terms.size());
    terms.push_back(
        {member.part->small[number % HostRankPart::kRing].data(), {rank, rank + 1}, dtype});
  }
  void* output = call.output.raw();
  reduce_terms(dtype, call.op, terms, dtype, {&output, 1}, call.output.numel());
}

void HostGroup::wait_until(const std::function<bool()>& holds) {
  if (holds()) return;
  ++waiting_;
  try {
    wait_for_event(holds);
  } catch (...) {
    --waiting_;
    throw;
  }
  --waiting_;
  // Calls that became ready at the last moment were left to this thread.
  if (!is_idle()) event().notify();
  throw_error();
}

void HostGroup::wait_for_event(const std::function<bool()>& holds) {
  auto looked = Clock::now(), alive = looked;
  std::chrono::nanoseconds sleep = kShortestSleep;
  while (true) {
    const uint32_t seen = event().count();
    bool progress = false;
    {
      const std::lock_guard lock(mutex_);
      progress = do_what_is_ready();
    }
    if (failed_ || holds()) return;
    check_others();
    const auto now = Clock::now();
    if (progress || event().count() != seen) {
      looked = now;
      sleep = kShortestSleep;
    } else if (now - looked > kSpin) {
      event().wait_for(seen, while_waiting_ || between_hosts() ? sleep : kAliveInterval);
      if (while_waiting_) while_waiting_();
      sleep = std::min<std::chrono::nanoseconds>(2 * sleep, kLongestSleep);
    }
    if (now - alive > kAliveInterval) {
      alive = now;
      check_alive();
    }
  }
}

void HostGroup::ring_others() const {
  for (const HostMember& member : members_) {
    if (member.part != &mine()) member.event->notify();
  }
}

void HostGroup::abort() {
  const std::lock_guard lock(mutex_);
  fail_with(std::make_exception_ptr(
      PeerError("a collective of this group was aborted, so later ones are not possible")));
}

// Requires the lock. Only the first error is kept and reported.
void HostGroup::fail_with(std::exception_ptr error) {
  if (failed_) return;
  error_ = std::move(error);
  failed_ = true;
  mine().failed = true;
  event().notify();
  ring_others();
}

void HostGroup::check_others() const {
  for (size_t member = 0; member < members_.size(); ++member) {
    if (!members_[member].part->failed) continue;
    throw PeerError(
        fmt::format("rank {} has failed, and this one waits for it", members_[member].world_rank));
  }
}

void HostGroup::check_alive() const {
  for (size_t member = 0; member < members_.size(); ++member) {
    if (kill(members_[member].process, 0) == 0 || errno != ESRCH) continue;
    throw PeerError(fmt::format("rank {} (process {}) has ended, and this one waits for it",
                                members_[member].world_rank, members_[member].process));
  }
}

void HostGroup::throw_error() {
  if (failed_) std::rethrow_exception(error_);
}

}  // namespace tessera
