#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/exit_code.h"
#include "parallel/watchdog/hang_report.h"

namespace tessera {

/// Why a start of a run ended.
struct RunEnd {
  ExitCode code = ExitCode::failed;
  int launcher_code = 0;    ///< of the command; 128 + N for signal N
  std::optional<int> rank;  ///< that failed, died or was stopped, if one did
  std::string host;         ///< its host, if known
  std::string what;         ///< a sentence: "rank 2 (host a) died by signal 9"

  /// Whether a host may be to blame.
  bool is_of_host() const {
    return !host.empty() && (code == ExitCode::failed || code == ExitCode::hang);
  }
};

/// Observations and actions of the supervisor before the command ended.
struct Observed {
  std::optional<int> dead_rank;  ///< its process had ended without a message
  std::string hang;              ///< why the supervisor ended the command, or ""
};

/// Explains the end of a command from its exit code, the end of its standard error, and the flight
/// recorders of the ranks of this start. Pure.
RunEnd explain_end(int launcher_code, const std::string& error_output,
                   const std::vector<RankView>& views, const Observed& observed);

}  // namespace tessera
