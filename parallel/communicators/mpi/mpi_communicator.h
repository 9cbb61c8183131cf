#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/mpi/mpi_context.h"
#include "parallel/communicators/mpi/mpi_runtime.h"

namespace tessera {

/// How a communicator, and those split from it, move tensors.
struct Transport {
  MpiTransport kind = MpiTransport::automatic;
  int64_t max_count = kMaxCount;  ///< elements per MPI call
};

/// Creates a communicator of the ranks of `comm` and takes ownership of `comm`. Collective;
/// requires the context's lock.
std::unique_ptr<Communicator> make_communicator(MPI_Comm comm,
                                                const std::shared_ptr<MpiContext>& context,
                                                const Transport& transport);

}  // namespace tessera
