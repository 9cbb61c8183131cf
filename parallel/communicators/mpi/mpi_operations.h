#pragma once

#include <mpi.h>

#include "core/dtype.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Throws, naming `operation`, with MPI's own text if `code` is an error.
void check_mpi(int code, const char* operation);

/// After that nothing of MPI may be called.
bool mpi_is_finalized();

int mpi_rank(MPI_Comm comm);
int mpi_size(MPI_Comm comm);

/// bf16 travels as integers of its size.
MPI_Datatype mpi_datatype(DType dtype);

/// The reductions that MPI lacks: all of bf16, and maxima in which a NaN stays.
class MpiOperations {
 public:
  MpiOperations();
  ~MpiOperations();
  MpiOperations(const MpiOperations&) = delete;
  MpiOperations& operator=(const MpiOperations&) = delete;

  MPI_Op get(DType dtype, ReduceOp op) const;

 private:
  MPI_Op sum_bf16_ = MPI_OP_NULL;
  MPI_Op max_bf16_ = MPI_OP_NULL;
  MPI_Op max_f32_ = MPI_OP_NULL;
  MPI_Op max_f64_ = MPI_OP_NULL;
};

}  // namespace tessera
