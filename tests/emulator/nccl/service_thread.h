#pragma once

#include "tests/emulator/nccl/clique.h"

/// Work that ranks of other processes wait for. All functions require stream_mutex().
namespace emulator {

/// Starts a thread, once there are other processes, that advances this process's streams as far as
/// others wait for, whatever its host does meanwhile, as GPUs would.
void start_service_thread();

/// Others wait for the stream's `ticket`-th work, which belongs to `comm`.
struct RequestedWork {
  const ncclComm* comm;
  Stream* stream;
  uint64_t ticket;
};
void request_work(const RequestedWork& work);

}  // namespace emulator
