#pragma once

#include "parallel/communicators/communicator.h"

namespace tessera {

/// During its lifetime, SIGTERM, SIGINT and SIGUSR1 (which schedulers send before they preempt a
/// job) only request a stop. A second SIGINT ends the process as usual. At most one per process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Whether any rank was asked to stop; the answer is the same on every rank. Collective.
  bool requested(Communicator& world) const;
};

}  // namespace tessera
