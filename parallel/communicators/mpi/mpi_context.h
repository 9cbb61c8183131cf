#pragma once

#include <chrono>
#include <mutex>

#include "parallel/communicators/host/progress_thread.h"
#include "parallel/communicators/mpi/mpi_host.h"
#include "parallel/communicators/mpi/mpi_operations.h"

namespace tessera {

/// What all communicators of an MpiRuntime have in common.
struct MpiContext {
  MpiOperations operations;
  MpiHost host;
  /// To be held in every call of MPI, which is initialised for one thread at a time
  /// (MPI_THREAD_SERIALIZED). A call that blocks moves all that is pending on by itself.
  std::timed_mutex calls;
  ProgressThread thread{host.bell()};
};

}  // namespace tessera
