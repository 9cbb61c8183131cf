#pragma once

#include <cstdint>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Why a run ends before its last step. The largest of all ranks' counts.
enum class StopReason : int32_t { none, out_of_time, signal };

/// Blocks SIGTERM, SIGINT, SIGUSR1 and, unless it is ignored, SIGHUP in this thread and in the
/// threads that it starts from now on, and starts a thread that receives them: no handler may run
/// in a thread that computes. oneDNN's AVX2 kernels keep other addresses in the stack pointer, and
/// a handler's frame would overwrite the heap. Call it before OpenMP and MPI start their threads.
///
/// Outside the lifetime of a StopSignal, the signals end the process as usual.
void receive_stop_signals();

/// During its lifetime, these signals, some of which schedulers send before they preempt a job,
/// only request a stop. A second SIGINT ends the process as usual. At most one per process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Whether a rank was asked to stop by a signal or has a reason of its `own`; the answer is the
  /// same on every rank. Collective.
  StopReason requested(Communicator& world, StopReason own = StopReason::none) const;
};

}  // namespace tessera
