#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera {

/// A thread that runs one job at a time while its owner continues. The effects of a job are visible
/// once wait() has returned or running() has returned false.
///
/// The thread is not one of OpenMP's: a parallel_for() in a job runs on this thread alone. It
/// handles no signals. A job must not use a communicator that the owner uses.
class BackgroundThread {
 public:
  BackgroundThread() = default;
  /// Waits for the running job and discards its error.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Starts a job. The job before must have been waited for. Throws if the system cannot start a
  /// thread.
  void start(std::function<void()> job);

  /// Whether a job is running.
  bool running() const;
  /// Whether a finished job's error is pending; wait() will throw it.
  bool failed() const;

  /// Waits for the job, if any, and throws its error, once.
  void wait();
  /// Like wait(), but discards the job's error.
  void discard() noexcept;

 private:
  void work();

  mutable std::mutex mutex_;  // guards the members below except thread_
  std::condition_variable changed_;
  std::function<void()> job_;  // empty: no job
  bool ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // started with the first job
};

}  // namespace tessera
