#include "core/cuda/wait_check.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "core/trace/flight_recorder.h"

namespace tessera::cuda {
namespace {

thread_local std::vector<WaitCheck*> checks;

}  // namespace

void WaitCheck::run_all() {
  for (size_t i = 0; i < checks.size(); ++i) checks[i]->check_();
}

WaitCheck::WaitCheck(std::function<void()> check) : check_(std::move(check)) {
  checks.push_back(this);
}

WaitCheck::~WaitCheck() {
  checks.erase(std::remove(checks.begin(), checks.end(), this), checks.end());
}

bool WaitCheck::any() { return !checks.empty(); }

void WaitCheck::wait_until(const std::function<bool()>& done) {
  if (done()) return run_all();
  const FlightRecorder::GpuWait waits;
  // Most waits are short, so spin first. A long wait then sleeps between polls and ends at most one
  // pause late.
  constexpr auto kPause = std::chrono::microseconds(50);
  constexpr auto kBetweenChecks = std::chrono::milliseconds(5);
  constexpr int kWithoutPause = 1000;
  auto next_check = std::chrono::steady_clock::now() + kBetweenChecks;
  for (int i = 0; !done(); ++i) {
    if (i >= kWithoutPause) std::this_thread::sleep_for(kPause);
    if (std::chrono::steady_clock::now() < next_check) continue;
    run_all();
    next_check = std::chrono::steady_clock::now() + kBetweenChecks;
  }
  run_all();
}

}  // namespace tessera::cuda
