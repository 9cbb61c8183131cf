#include "parallel/communicators/mpi/mpi_runtime.h"

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "core/error.h"
#include "parallel/communicators/mpi/mpi_call.h"
#include "parallel/communicators/mpi/mpi_communicator.h"
#include "parallel/communicators/mpi/mpi_context.h"
#include "parallel/communicators/mpi/mpi_launch.h"

namespace tessera {
namespace {

// Ranks started by the launcher of another MPI would each be a complete run of one rank, all in one
// folder.
void check_launch() {
  const auto launch = find_mpi_launch([](const char* name) { return std::getenv(name); });
  const int size = mpi_size(MPI_COMM_WORLD);
  require(!launch || launch->ranks.value_or(size) == size,
          "{} says that {} ranks were started, but the MPI library sees {}: start Tessera with the "
          "mpirun of the MPI that it was built with (with Slurm: srun --mpi=pmix or --mpi=pmi2)",
          launch ? launch->variable : "", launch ? launch->ranks.value_or(size) : size, size);
}

}  // namespace

MpiRuntime::MpiRuntime() : exceptions_(std::uncaught_exceptions()) {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require(provided >= MPI_THREAD_SERIALIZED,
          "the MPI library cannot be called by more than one thread, not even in turn: use one "
          "that was built with thread support (MPI_THREAD_SERIALIZED)");
  check_launch();
  context_ = std::make_shared<MpiContext>();
  world_ = duplicate_world();
}

MpiRuntime::~MpiRuntime() {
  if (std::uncaught_exceptions() > exceptions_) abort("ended by an exception");
  world_.reset();
  context_.reset();
  MPI_Finalize();
}

void MpiRuntime::abort(std::string_view message, ExitCode code) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // One write per message, so that the ranks' messages do not mix within a line.
  const std::string text = fmt::format("tessera: rank {}: {}\n", rank, message);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  // Another thread of this rank may be in an MPI call, but only briefly unless it hangs.
  std::unique_lock<std::timed_mutex> lock;
  if (context_ != nullptr) lock = std::unique_lock(context_->calls, std::chrono::seconds(1));
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

std::unique_ptr<Communicator> MpiRuntime::duplicate_world(const MpiTransport& transport) {
  const std::lock_guard lock(context_->calls);
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return make_communicator(comm, context_, transport);
}

}  // namespace tessera
