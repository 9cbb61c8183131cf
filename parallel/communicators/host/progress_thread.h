#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "core/threads/background_thread.h"
#include "parallel/communicators/host/host_event_count.h"

namespace tessera {

/// Pending work that any thread can advance.
class Progressable {
 public:
  virtual ~Progressable() = default;

  enum class Progress : uint8_t {
    nothing,   ///< there was nothing to do yet
    some,      ///< something was done, and there may be more
    finished,  ///< there is nothing left
  };
  /// Does what can be done now, without waiting. Does not throw: the thread that waits for the
  /// result gets the error.
  virtual Progress make_progress() = 0;

  /// Whether the event count is notified when there is something to do. If not, the work must be
  /// polled.
  virtual bool notifies() const = 0;
};

/// Advances pending collectives while the rank's other threads compute. It sleeps while nothing is
/// pending and until it is notified; it polls only work that does not notify.
class ProgressThread {
 public:
  /// `event` must outlive this object; other ranks notify it.
  explicit ProgressThread(HostEventCount& event) : event_(event) {}
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Advances `pending` until it has finished. Does nothing if it is already being watched.
  void watch(Progressable& pending);

  /// After this returns, the thread no longer accesses `pending`.
  void remove(Progressable& pending);

 private:
  using Nanoseconds = std::chrono::nanoseconds;

  void work();
  /// Advances each once, without holding the lock meanwhile. Returns whether anything was done.
  bool pass(std::unique_lock<std::mutex>& lock);
  /// Sleeps until there may be something to do. `last_pause` is the length of the previous pause.
  void pause(std::unique_lock<std::mutex>& lock, uint32_t seen, Nanoseconds& last_pause);

  HostEventCount& event_;
  std::mutex mutex_;  // protects all members below except thread_
  std::condition_variable changed_;
  std::vector<Progressable*> watched_;
  Progressable* current_ = nullptr;  // its make_progress() is running
  bool watched_again_ = false;       // watch(current_) was called meanwhile
  bool started_ = false;
  bool ends_ = false;
  BackgroundThread thread_;
};

}  // namespace tessera
