#pragma once

#include "tests/emulator/nccl/clique.h"

namespace emulator {

/// Ends the process unless the calling thread may make `call` on `comm` and `stream`. Checks the
/// GPU, the buffers' memory, their alignment and overlaps.
void check_call(const ncclComm& comm, const NcclCall& call, const Stream* stream);

}  // namespace emulator
