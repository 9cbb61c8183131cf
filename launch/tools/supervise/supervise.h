#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/exit_code.h"
#include "launch/tools/supervise/restart_policy.h"

namespace tessera {

struct SuperviseOptions {
  std::vector<std::string> command;  ///< as in mpirun -np 4 tessera train x.yaml
  std::string resume;                ///< the command line that continues the run
  RestartOptions restarts;
  double stop_timeout = 0.0;      ///< seconds in which a run that is asked to stop must end; 0: any
  double start_timeout = 1800.0;  ///< seconds until a start must have begun its first step
  int64_t kill_grace = 3;         ///< seconds between mpirun's SIGTERM and SIGKILL for a rank
  std::optional<size_t> memory;   ///< bytes of a rank, for layouts of fewer ranks
};

/// Runs a command that trains, and starts it again if it fails, hangs or is preempted, as
/// docs/reliability.md describes. SIGTERM, SIGINT, SIGUSR1 and SIGHUP let the run save and end.
/// Returns the exit code that says why the last start ended, and says on standard error how to
/// resume. Throws if the command or its configuration is wrong.
ExitCode supervise(const SuperviseOptions& options);

}  // namespace tessera
