#pragma once

#include <mpi.h>

#include "core/dtype.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Throws with MPI's own text, naming `operation`, if `code` is an error.
void check_mpi(int code, const char* operation);

/// Whether MPI is finalized; no MPI function may be called then.
bool mpi_is_finalized();

int mpi_rank(MPI_Comm comm);
int mpi_size(MPI_Comm comm);

/// bf16 maps to an integer of the same size.
MPI_Datatype mpi_datatype(DType dtype);

/// The reductions that MPI lacks: all of bf16, and maxima that propagate NaN.
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
