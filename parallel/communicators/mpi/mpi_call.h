#pragma once

#include <mpi.h>

#include "core/dtype.h"

namespace tessera {

/// Throws with MPI's own text, naming `operation`, if `code` is an error.
void check_mpi(int code, const char* operation);

/// Whether MPI is finalized; no MPI function may be called then.
bool mpi_is_finalized();

int mpi_rank(MPI_Comm comm);
int mpi_size(MPI_Comm comm);

/// bf16 maps to an integer of the same size.
MPI_Datatype mpi_datatype(DType dtype);

}  // namespace tessera
