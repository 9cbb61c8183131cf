#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera {

/// A thread that does one job at a time while its owner goes on with other work. What a job does is
/// done when wait() has returned, or running() has said so.
///
/// It is no thread of OpenMP's: a parallel_for() in a job runs on this one thread, and takes none
/// of the rank's. No signal is handled on it. A job may not use a communicator that its owner uses.
class BackgroundThread {
 public:
  BackgroundThread() = default;
  /// Waits for the job under way, of which an error is lost.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Begins a job. There may be none that was not waited for. Throws if the system has no thread.
  void start(std::function<void()> job);

  /// Whether a job was started that is not done.
  bool running() const;
  /// Whether a job is done of which wait() will throw an error.
  bool failed() const;

  /// Returns when the job that was started, if any, is done. Throws what it threw, once.
  void wait();
  /// As wait(), where nobody is interested in what the job gave any more: its error is lost.
  void discard() noexcept;

 private:
  void work();

  mutable std::mutex mutex_;  // of all below but the thread
  std::condition_variable changed_;
  std::function<void()> job_;  // empty: there is none
  bool ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // from the first job on
};

}  // namespace tessera
