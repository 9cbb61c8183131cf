#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "core/threads/background_thread.h"
#include "parallel/communicators/host/host_bell.h"

namespace tessera {

/// Something that is pending and can be made to progress by any thread.
class Progressable {
 public:
  virtual ~Progressable() = default;

  enum class Progress : uint8_t {
    nothing,   ///< there was nothing to do yet
    some,      ///< something was done, and there may be more
    finished,  ///< there is nothing left
  };
  /// Does what can be done now, without waiting. Does not throw: what goes wrong, the thread that
  /// waits for the result is told.
  virtual Progress make_progress() = 0;

  /// Whether the bell rings when there is something to do. If not, one has to look.
  virtual bool rings() const = 0;
};

/// Moves pending collectives on while the rank's other threads compute. It sleeps where nothing is
/// pending, and until the bell rings; only for what does not ring it looks now and then.
class ProgressThread {
 public:
  /// `bell` must outlive it, and is rung by other ranks.
  explicit ProgressThread(HostBell& bell) : bell_(bell) {}
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Makes `pending` progress until it has finished. Does nothing if it does so already.
  void watch(Progressable& pending);

  /// When this returns the thread does not look at `pending` any more.
  void forget(Progressable& pending);

 private:
  using Nanoseconds = std::chrono::nanoseconds;

  void work();
  /// Moves each on once. The lock is not held meanwhile. Whether anything was done.
  bool pass(std::unique_lock<std::mutex>& lock);
  /// Sleeps until something may be to do. `last_pause` is how long it was before.
  void pause(std::unique_lock<std::mutex>& lock, uint32_t seen, Nanoseconds& last_pause);

  HostBell& bell_;
  std::mutex mutex_;  // of all below but the thread
  std::condition_variable changed_;
  std::vector<Progressable*> watched_;
  Progressable* current_ = nullptr;  // the thread is in its make_progress()
  bool watched_again_ = false;       // since the thread has begun that
  bool started_ = false;
  bool ends_ = false;
  BackgroundThread thread_;
};

}  // namespace tessera
