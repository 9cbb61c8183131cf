#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "launch/tools/supervise/run_end.h"

namespace tessera {

struct RestartOptions {
  bool restarts = true;                       ///< false: the first end is the last
  int64_t most_without_progress = 5;          ///< restarts in a row without a newer checkpoint
  double delay = 5.0, longest_delay = 300.0;  ///< seconds before a restart
  int64_t most_host_failures = 3;             ///< in a row, then the host is left out
};

/// Decision after the end of a start.
struct Decision {
  bool restarts = false;
  double delay = 0.0;     ///< seconds before the restart
  std::string why;        ///< why the run is not started again
  std::string lost_host;  ///< a host that failed too often, or ""
};

/// Decides whether a run is started again. Pure.
class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartOptions& options) : options_(options) {}

  /// `progressed`: there is a newer checkpoint than at the start. `asked`: the supervisor was asked
  /// to stop.
  Decision after(const RunEnd& end, bool progressed, bool asked);

 private:
  RestartOptions options_;
  int64_t without_progress_ = 0;
  std::string failing_host_;
  int64_t host_failures_ = 0;
};

}  // namespace tessera
