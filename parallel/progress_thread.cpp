#include "parallel/progress_thread.h"

#include <algorithm>

namespace tessera {
namespace {

using std::chrono::microseconds;

// How long it sleeps before it looks again at what does not ring. A look takes some microseconds,
// so that even the shortest is no load; the longest is short beside a bucket's way over a network.
constexpr microseconds kShortestPause{50};
constexpr microseconds kLongestPause{1000};
// For what rings. A bell that was missed would be an error, so this is only for one that rang for
// another thread's sake.
constexpr std::chrono::seconds kNoPause{1};
/// So often it looks again at once while something is done, and then pauses all the same: others
/// want the core, and MPI's lock.
constexpr int kMostPasses = 64;

}  // namespace

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  bell_.ring();
}

void ProgressThread::watch(Movable& movable) {
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(watched_, &movable) == watched_.end()) watched_.push_back(&movable);
    if (moving_ == &movable) watched_again_ = true;
    if (!started_) thread_.start([this] { work(); });
    started_ = true;
  }
  changed_.notify_all();
  bell_.ring();
}

void ProgressThread::forget(Movable& movable) {
  std::unique_lock lock(mutex_);
  std::erase(watched_, &movable);
  changed_.wait(lock, [&] { return moving_ != &movable; });
  std::erase(watched_, &movable);  // it may have been put back
}

void ProgressThread::work() {
  Nanoseconds last_pause{0};
  int passes = 0;
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (watched_.empty()) {
      changed_.wait(lock);
      last_pause = Nanoseconds{0};
      continue;
    }
    const uint32_t seen = bell_.rings();
    if (pass(lock) && ++passes < kMostPasses) {
      last_pause = Nanoseconds{0};
      continue;
    }
    passes = 0;
    if (!ends_ && !watched_.empty()) {
      pause(lock, seen, last_pause);
    }
  }
}

bool ProgressThread::pass(std::unique_lock<std::mutex>& lock) {
  bool any = false;
  const std::vector<Movable*> all = watched_;
  for (Movable* movable : all) {
    if (ends_) break;
    if (std::ranges::find(watched_, movable) == watched_.end()) continue;
    moving_ = movable;
    watched_again_ = false;
    lock.unlock();
    const Movable::Moved moved = movable->move_on();
    lock.lock();
    moving_ = nullptr;
    if (moved == Movable::Moved::finished && !watched_again_) std::erase(watched_, movable);
    any |= moved != Movable::Moved::nothing;
    changed_.notify_all();
  }
  return any;
}

void ProgressThread::pause(std::unique_lock<std::mutex>& lock, uint32_t seen,
                           Nanoseconds& last_pause) {
  Nanoseconds length = kNoPause;
  if (!std::ranges::all_of(watched_, &Movable::rings)) {
    length = std::clamp<Nanoseconds>(2 * last_pause, kShortestPause, kLongestPause);
    last_pause = length;
  }
  lock.unlock();
  bell_.sleep(seen, length);
  lock.lock();
}

}  // namespace tessera
