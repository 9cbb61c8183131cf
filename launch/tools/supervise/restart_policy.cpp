#include "launch/tools/supervise/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/support/exit_codes.h"

namespace tessera {

Decision RestartPolicy::after(const RunEnd& end, bool progressed, bool asked) {
  Decision decision;
  const ExitCodeMeaning& meaning = *find_exit_code(static_cast<int>(end.code));
  if (end.code == ExitCode::finished) {
    decision.why = "the run has finished";
    return decision;
  }
  if (asked) {
    decision.why = "it was asked to stop";
    return decision;
  }
  if (!meaning.restarts || !options_.restarts) {
    decision.why = fmt::format("exit code {} ({})", static_cast<int>(end.code), meaning.name);
    return decision;
  }
  if (end.is_of_host()) {
    host_failures_ = end.host == failing_host_ ? host_failures_ + 1 : 1;
    failing_host_ = end.host;
    if (host_failures_ >= options_.most_host_failures) {
      decision.lost_host = end.host;
      host_failures_ = 0;
    }
  } else if (end.code == ExitCode::failed || end.code == ExitCode::hang) {
    host_failures_ = 0;
  }
  if (progressed) without_progress_ = 0;
  if (without_progress_ >= options_.most_without_progress) {
    decision.why = fmt::format("{} restarts in a row have saved no newer checkpoint",
                               options_.most_without_progress);
    return decision;
  }
  // Doubles with each restart that did not help.
  decision.delay = std::min(options_.longest_delay,
                            options_.delay * std::pow(2.0, static_cast<double>(without_progress_)));
  ++without_progress_;
  decision.restarts = true;
  return decision;
}

}  // namespace tessera
