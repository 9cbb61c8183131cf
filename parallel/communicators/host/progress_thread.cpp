#include "parallel/communicators/host/progress_thread.h"

#include <algorithm>

namespace tessera {
namespace {

using std::chrono::microseconds;

// Pause between polls of work that does not notify. A poll takes a few microseconds, so even the
// shortest pause causes no load; the longest is short compared with sending a bucket over a
// network.
constexpr microseconds kShortestPause{50};
constexpr microseconds kLongestPause{1000};
// Pause if all pending work notifies. A missed event would be a bug; this covers only one that
// another thread has consumed.
constexpr std::chrono::seconds kNoPause{1};
/// Number of polls in a row that find work before it pauses anyway: others need the core and MPI's
/// lock.
constexpr int kMostPasses = 64;

}  // namespace

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  event_.notify();
}

void ProgressThread::watch(Progressable& pending) {
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(watched_, &pending) == watched_.end()) watched_.push_back(&pending);
    if (current_ == &pending) watched_again_ = true;
    if (!started_) thread_.start([this] { work(); });
    started_ = true;
  }
  changed_.notify_all();
  event_.notify();
}

void ProgressThread::remove(Progressable& pending) {
  std::unique_lock lock(mutex_);
  std::erase(watched_, &pending);
  changed_.wait(lock, [&] { return current_ != &pending; });
  std::erase(watched_, &pending);  // it may have been added again
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
    const uint32_t seen = event_.count();
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
  const std::vector<Progressable*> all = watched_;
  for (Progressable* pending : all) {
    if (ends_) break;
    if (std::ranges::find(watched_, pending) == watched_.end()) continue;
    current_ = pending;
    watched_again_ = false;
    lock.unlock();
    const Progressable::Progress progress = pending->make_progress();
    lock.lock();
    current_ = nullptr;
    if (progress == Progressable::Progress::finished && !watched_again_) {
      std::erase(watched_, pending);
    }
    any |= progress != Progressable::Progress::nothing;
    changed_.notify_all();
  }
  return any;
}

void ProgressThread::pause(std::unique_lock<std::mutex>& lock, uint32_t seen,
                           Nanoseconds& last_pause) {
  Nanoseconds length = kNoPause;
  if (!std::ranges::all_of(watched_, &Progressable::notifies)) {
    length = std::clamp<Nanoseconds>(2 * last_pause, kShortestPause, kLongestPause);
    last_pause = length;
  }
  lock.unlock();
  event_.wait_for(seen, length);
  lock.lock();
}

}  // namespace tessera
