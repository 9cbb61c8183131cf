#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "parallel/communicators/host/host_link.h"
#include "parallel/communicators/mpi/mpi_context.h"

namespace tessera {

/// Messages between the ranks of `comm`, which must outlive it, in pieces of at most `max_bytes`.
std::unique_ptr<HostLink> make_mpi_link(MPI_Comm comm, std::shared_ptr<MpiContext> context,
                                        size_t max_bytes);

}  // namespace tessera
