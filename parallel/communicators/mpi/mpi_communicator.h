#pragma once

#include <mpi.h>

#include <memory>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/mpi/mpi_context.h"
#include "parallel/communicators/mpi/mpi_runtime.h"

namespace tessera {

/// Creates a communicator of the ranks of `comm` and takes ownership of `comm`. Collective;
/// requires the context's lock.
std::unique_ptr<Communicator> make_communicator(MPI_Comm comm,
                                                const std::shared_ptr<MpiContext>& context,
                                                const MpiTransport& transport);

}  // namespace tessera
