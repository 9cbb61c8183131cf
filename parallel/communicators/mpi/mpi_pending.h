#pragma once

#include <mpi.h>

#include <exception>
#include <memory>
#include <vector>

#include "core/trace/timeline.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/mpi/mpi_context.h"

namespace tessera {

/// The requests of a running collective. MPI advances them only within its calls, so the progress
/// thread calls it from time to time.
class MpiPending final : public PendingCollective, public Progressable {
 public:
  /// `operation` is named in errors.
  MpiPending(const char* operation, std::shared_ptr<MpiContext> context)
      : operation_(operation), context_(std::move(context)) {}
  MpiPending(const MpiPending&) = delete;
  MpiPending& operator=(const MpiPending&) = delete;
  ~MpiPending() override;

  /// Storage for the next request. Call it before any other member.
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  /// Hands the requests to the progress thread, after the last add().
  void watch() { context_->thread.watch(*this); }

  void wait() override;
  bool progress() override;

  Progress make_progress() override;
  bool notifies() const override { return false; }

 private:
  int count() const { return static_cast<int>(requests_.size()); }
  /// The following require the context's lock. Completed requests stay completed.
  void test();
  void raise() const { check_mpi(code_, operation_); }

  const char* operation_;
  std::shared_ptr<MpiContext> context_;
  Timeline* timeline_ = Timeline::current();
  std::vector<MPI_Request> requests_;
  bool ended_ = false;
  int code_ = MPI_SUCCESS;  // result of the call that completed them
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera
