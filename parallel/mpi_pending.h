#pragma once

#include <mpi.h>

#include <exception>
#include <vector>

#include "parallel/communicator.h"

namespace tessera {

/// The requests of a collective that runs.
class MpiPending final : public PendingCollective {
 public:
  /// `operation` is named if it fails.
  explicit MpiPending(const char* operation) : operation_(operation) {}
  MpiPending(const MpiPending&) = delete;
  MpiPending& operator=(const MpiPending&) = delete;
  ~MpiPending() override;

  /// Where MPI puts the next request; before any other call.
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  void wait() override;
  bool progress() override;

 private:
  int count() const { return static_cast<int>(requests_.size()); }

  const char* operation_;
  std::vector<MPI_Request> requests_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera
