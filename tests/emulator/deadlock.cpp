#include "tests/emulator/deadlock.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

namespace emulator {
namespace {

using Clock = std::chrono::steady_clock;

struct Waiting {
  uint64_t events;  // number of events at that time
  Clock::time_point since, last;
  bool asks;  // polls instead of sleeping
};

struct Waits {
  uint64_t events = 0;
  std::map<std::thread::id, Waiting> waiting;
  std::vector<DeadlockCheck> tellers;
};

Waits& state() {
  static auto* instance = new Waits;
  return *instance;
}

bool waits(std::thread::id thread) {
  // Callers that check for errors meanwhile poll more often than kPause and give up after kLong.
  constexpr auto kPause = std::chrono::milliseconds(200);
  constexpr auto kLong = std::chrono::seconds(3);
  const auto found = state().waiting.find(thread);
  if (found == state().waiting.end() || found->second.events != state().events) return false;
  const Waiting& waiting = found->second;
  return !waiting.asks ||
         (Clock::now() - waiting.last < kPause && waiting.last - waiting.since > kLong);
}

}  // namespace

void add_deadlock_check(DeadlockCheck tell) { state().tellers.push_back(tell); }

void something_happens() { ++state().events; }

HostWait::HostWait() {
  const auto now = Clock::now();
  state().waiting[std::this_thread::get_id()] = {state().events, now, now, false};
}
HostWait::~HostWait() { state().waiting.erase(std::this_thread::get_id()); }

void host_has_asked() {
  const auto now = Clock::now();
  const auto found = state().waiting.find(std::this_thread::get_id());
  if (found == state().waiting.end() || found->second.events != state().events) {
    state().waiting[std::this_thread::get_id()] = {state().events, now, now, true};
    return;
  }
  found->second.last = now;
  fail_if_all_wait();
}

void fail_if_all_wait() {
  for (const DeadlockCheck tell : state().tellers) {
    const std::string what = tell(waits);
    if (what.empty()) continue;
    std::fprintf(stderr, "emulated GPU: deadlock, all threads wait for each other: %s\n",
                 what.c_str());
    std::abort();
  }
}

}  // namespace emulator
