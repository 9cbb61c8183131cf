#pragma once

#include <chrono>
#include <mutex>

#include "parallel/communicators/host/progress_thread.h"
#include "parallel/communicators/mpi/mpi_host.h"

namespace tessera {

/// State shared by all communicators of an MpiRuntime.
struct MpiContext {
  MpiHost host;
  /// Held during every MPI call: MPI is initialized for one thread at a time
  /// (MPI_THREAD_SERIALIZED). A blocking MPI call advances all pending requests too.
  std::timed_mutex calls;
  ProgressThread thread{host.event()};
};

}  // namespace tessera
