#include "parallel/mpi_pending.h"

#include <chrono>
#include <thread>

#include "parallel/mpi_operations.h"

namespace tessera {

MpiPending::~MpiPending() {
  if (std::uncaught_exceptions() == exceptions_) {
    MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE);
    return;
  }
  // The other ranks may wait for this one and so never take part. The exception is on its way to
  // MpiRuntime::abort(), which a wait without end would keep from ending them.
  constexpr auto kGrace = std::chrono::seconds(2);
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  int done = 0;
  while (MPI_Testall(count(), requests_.data(), &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
         done == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void MpiPending::wait() {
  check_mpi(MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE), operation_);
}

bool MpiPending::progress() {
  int done = 0;
  check_mpi(MPI_Testall(count(), requests_.data(), &done, MPI_STATUSES_IGNORE), operation_);
  return done != 0;
}

}  // namespace tessera
