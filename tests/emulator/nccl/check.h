#pragma once

#include "tests/emulator/nccl/clique.h"

namespace emulator {

/// Ends the process unless `call` may be made on `comm` and `stream` by the calling thread: the
/// GPU, the buffers' memory, their alignment and where they overlap.
void check_call(const ncclComm& comm, const NcclCall& call, const Stream* stream);

}  // namespace emulator
