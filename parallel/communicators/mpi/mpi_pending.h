#pragma once

#include <mpi.h>

#include <exception>
#include <memory>
#include <vector>

#include "core/trace/timeline.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/mpi/mpi_context.h"

namespace tessera {

/// The requests of a collective that runs. MPI moves them on within its calls alone, so the
/// context's thread calls it now and then.
class MpiPending final : public PendingCollective, public Progressable {
 public:
  /// `operation` is named if it fails.
  MpiPending(const char* operation, std::shared_ptr<MpiContext> context)
      : operation_(operation), context_(std::move(context)) {}
  MpiPending(const MpiPending&) = delete;
  MpiPending& operator=(const MpiPending&) = delete;
  ~MpiPending() override;

  /// Where MPI puts the next request; before any other call.
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  /// All requests are there: the thread looks after them from now on.
  void watch() { context_->thread.watch(*this); }

  void wait() override;
  bool progress() override;

  Progress make_progress() override;
  bool rings() const override { return false; }

 private:
  int count() const { return static_cast<int>(requests_.size()); }
  /// These two with the context's lock; requests that have ended stay so.
  void test();
  void raise() const { check_mpi(code_, operation_); }

  const char* operation_;
  std::shared_ptr<MpiContext> context_;
  Timeline* timeline_ = Timeline::current();
  std::vector<MPI_Request> requests_;
  bool ended_ = false;
  int code_ = MPI_SUCCESS;  // of the call that has ended them
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera
