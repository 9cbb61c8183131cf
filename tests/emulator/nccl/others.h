#pragma once

#include "tests/emulator/nccl/clique.h"

/// What ranks of other processes wait for. All calls are to be made with stream_mutex() held.
namespace emulator {

/// Starts a thread that lets this process's streams come as far as others wait for, whatever its
/// host does meanwhile, as GPUs would. Once, when there are others.
void serve_others();

/// Others wait for the stream's `ticket`-th work, which is of `comm`.
struct WantedWork {
  const ncclComm* comm;
  Stream* stream;
  uint64_t ticket;
};
void others_want(const WantedWork& work);

}  // namespace emulator
