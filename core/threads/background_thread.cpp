#include "core/threads/background_thread.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "core/error.h"

namespace tessera {
namespace {

/// Blocks signals in the new thread, which inherits the caller's mask. Signals must not interrupt a
/// job's writes, and a stop signal must reach a thread that it can wake. Faults of the thread
/// itself stay unblocked, because handlers report them.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
      sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

BackgroundThread::~BackgroundThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundThread::start(std::function<void()> job) {
  if (!thread_.joinable()) {
    const BlockedSignals blocked;
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      fail("a thread for work in the background cannot be started: {}", error.what());
    }
  }
  {
    const std::lock_guard lock(mutex_);
    require(!job_ && !error_, "a job was started in the background before the last was waited for");
    job_ = std::move(job);
  }
  changed_.notify_all();
}

bool BackgroundThread::running() const {
  const std::lock_guard lock(mutex_);
  return job_ != nullptr;
}

bool BackgroundThread::failed() const {
  const std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

void BackgroundThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !job_; });
  if (const auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

void BackgroundThread::discard() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !job_; });
  error_ = nullptr;
}

void BackgroundThread::work() {
  omp_set_num_threads(1);  // or OpenMP would give this thread its own pool
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return job_ || ends_; });
    if (!job_) return;
    const std::function<void()>& job = job_;  // valid until this thread clears it
    lock.unlock();
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    job_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace tessera
