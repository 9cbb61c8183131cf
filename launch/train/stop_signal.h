#pragma once

#include "parallel/communicators/communicator.h"

namespace tessera {

/// While it lives, SIGTERM, SIGINT and SIGUSR1 (what schedulers send before they take a machine
/// away) only ask for a stop; a second SIGINT ends the process as usual. At most one in a process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Whether any rank was asked to stop: the same answer on every rank. Collective.
  bool requested(Communicator& world) const;
};

}  // namespace tessera
