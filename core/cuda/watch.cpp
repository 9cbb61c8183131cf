#include "core/cuda/watch.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::cuda {
namespace {

thread_local std::vector<Watch*> watches;

}  // namespace

void Watch::look_at_all() {
  for (size_t w = 0; w < watches.size(); ++w) watches[w]->look_();
}

Watch::Watch(std::function<void()> look) : look_(std::move(look)) { watches.push_back(this); }

Watch::~Watch() { watches.erase(std::remove(watches.begin(), watches.end(), this), watches.end()); }

bool Watch::any() { return !watches.empty(); }

void Watch::until(const std::function<bool()>& done) {
  // Most waits are short. A long one costs no core, and ends less than the pause later.
  constexpr auto kPause = std::chrono::microseconds(50);
  constexpr auto kBetweenLooks = std::chrono::milliseconds(5);
  constexpr int kWithoutPause = 1000;
  auto next_look = std::chrono::steady_clock::now() + kBetweenLooks;
  for (int i = 0; !done(); ++i) {
    if (i >= kWithoutPause) std::this_thread::sleep_for(kPause);
    if (std::chrono::steady_clock::now() < next_look) continue;
    look_at_all();
    next_look = std::chrono::steady_clock::now() + kBetweenLooks;
  }
  look_at_all();
}

}  // namespace tessera::cuda
