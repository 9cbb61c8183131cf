#include "parallel/communicators/mpi/mpi_pending.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "parallel/communicators/mpi/mpi_operations.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

/// An MPI call that takes longer than this has copied or reduced something and may do so again; a
/// call that finds nothing to do takes a tenth of it.
constexpr std::chrono::microseconds kDidSomething{5};

}  // namespace

MpiPending::~MpiPending() {
  context_->thread.remove(*this);
  const std::lock_guard lock(context_->calls);
  if (ended_) return;
  if (std::uncaught_exceptions() == exceptions_) {
    MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE);
    return;
  }
  // While an exception propagates to MpiRuntime::abort(), wait for a short time only: the other
  // ranks may be waiting for this one and never take part.
  constexpr auto kGrace = std::chrono::seconds(2);
  const auto deadline = Clock::now() + kGrace;
  for (test(); !ended_ && Clock::now() < deadline; test()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void MpiPending::test() {
  if (ended_) return;
  int done = 0;
  code_ = MPI_Testall(count(), requests_.data(), &done, MPI_STATUSES_IGNORE);
  ended_ = done != 0 || code_ != MPI_SUCCESS;
}

void MpiPending::wait() {
  const std::lock_guard lock(context_->calls);
  if (!ended_) code_ = MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE);
  ended_ = true;
  raise();
}

bool MpiPending::progress() {
  const std::unique_lock lock(context_->calls, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // the progress thread is testing them
  test();
  raise();
  return ended_;
}

Progressable::Progress MpiPending::make_progress() {
  const std::unique_lock lock(context_->calls, std::try_to_lock);
  if (!lock.owns_lock())
    return Progress::nothing;  // the blocking call that holds the lock advances this too
  if (ended_) return Progress::finished;
  const auto begin = Clock::now();
  test();
  const auto end = Clock::now();
  const bool did_something = end - begin > kDidSomething;
  if (timeline_ != nullptr && did_something) {
    timeline_->add(operation_, Timeline::Track::background, begin, end);
  }
  if (ended_) return Progress::finished;
  return did_something ? Progress::some : Progress::nothing;
}

}  // namespace tessera
