#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"

namespace tessera {

/// Runs jobs on several threads: jobs are taken one by one, processed in parallel, and their
/// results used one by one in the order of the jobs. The outcome, including errors, is thus the
/// same for any number of threads. A single thread does everything itself.
///
/// Every thread takes a job, processes it, and hands its result to the thread that is currently
/// using results, or becomes that thread. Memory is bounded: a thread takes another job only while
/// the total size of unused jobs is below a limit.
template <typename Job, typename Result>
class OrderedWork {
 public:
  struct Stages {
    std::function<std::optional<Job>()> take;  ///< never called concurrently; nothing: no more jobs
    std::function<size_t(const Job&)> size;    ///< in the unit of `limit`
    std::function<Result(Job)> work;           ///< called concurrently
    std::function<void(Result)> use;           ///< never called concurrently
  };

  OrderedWork(Stages stages, size_t limit) : stages_(std::move(stages)), limit_(limit) {}

  /// Returns when all results have been used. If a job fails in any stage, rethrows the first job's
  /// exception after all earlier results were used and all threads have ended.
  void run(int threads) {
    {
      std::vector<std::jthread> others;
      try {
        while (static_cast<int>(others.size()) + 1 < threads) {
          others.emplace_back([this] { take_part(); });
        }
      } catch (const std::system_error& error) {
        stop();
        fail("only {} of {} threads could be started: {}", others.size() + 1, threads,
             error.what());
      }
      take_part();
    }
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

  /// Lets a stage stop waiting for something else once another stage has failed.
  std::stop_token stop_token() const { return stop_.get_token(); }

 private:
  /// A job and later its result, or its error.
  struct Ticket {
    int64_t number = 0;
    size_t size = 0;
    std::optional<Job> job;
    std::optional<Result> result;
    std::exception_ptr error;
  };

  /// Errors outside the stages, such as lack of memory, also stop the work.
  void take_part() {
    try {
      work_on_tickets();
    } catch (...) {
      stop();
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
  }

  void work_on_tickets() {
    while (std::unique_ptr<Ticket> ticket = take()) {
      if (ticket->error == nullptr) {
        try {
          ticket->result.emplace(stages_.work(std::move(*ticket->job)));
        } catch (...) {
          ticket->error = std::current_exception();
        }
      }
      ticket->job.reset();
      leave(std::move(ticket));
    }
  }

  /// Returns null if there are no more jobs.
  std::unique_ptr<Ticket> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || (!taking_ && in_flight_ < limit_); });
    if (ended_) return nullptr;
    taking_ = true;
    lock.unlock();
    auto ticket = std::make_unique<Ticket>();
    try {
      ticket->job = stages_.take();
      if (ticket->job) ticket->size = stages_.size(*ticket->job);
    } catch (...) {
      ticket->error = std::current_exception();
    }
    lock.lock();
    taking_ = false;
    changed_.notify_all();
    const bool failed = ticket->error != nullptr;
    if (failed || !ticket->job) ended_ = true;
    if (!failed && !ticket->job) return nullptr;
    ticket->number = taken_++;
    in_flight_ += ticket->size;
    return ticket;
  }

  void leave(std::unique_ptr<Ticket> ticket) {
    std::unique_lock lock(mutex_);
    const int64_t number = ticket->number;
    waiting_.emplace(number, std::move(ticket));
    if (using_) return;
    using_ = true;
    while (!waiting_.empty() && waiting_.begin()->first == used_ && error_ == nullptr) {
      const std::unique_ptr<Ticket> next = std::move(waiting_.extract(waiting_.begin()).mapped());
      lock.unlock();
      if (next->error == nullptr) {
        try {
          stages_.use(std::move(*next->result));
        } catch (...) {
          next->error = std::current_exception();
        }
      }
      if (next->error != nullptr) stop();
      lock.lock();
      if (next->error != nullptr) error_ = next->error;
      ++used_;
      in_flight_ -= next->size;
      changed_.notify_all();
    }
    using_ = false;
  }

  void stop() {
    stop_.request_stop();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  const Stages stages_;
  const size_t limit_;
  std::stop_source stop_;

  std::mutex mutex_;  ///< guards all members below
  std::condition_variable changed_;
  bool taking_ = false;
  bool using_ = false;
  bool ended_ = false;  ///< no more jobs exist or are wanted
  int64_t taken_ = 0;
  int64_t used_ = 0;
  size_t in_flight_ = 0;  ///< total size of jobs taken and not used
  std::map<int64_t, std::unique_ptr<Ticket>> waiting_;
  std::exception_ptr error_;
};

}  // namespace tessera
