#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "parallel/watchdog/hang_report.h"

namespace tessera {

/// Tells what each rank of a run does, or did last, from its flight recorders. Throws if the folder
/// has none.
std::string run_status(const std::filesystem::path& run_dir);

/// Tells the state of a run: "training", "saving", "evaluating", "starting" or "waiting" while it
/// lives; otherwise "ended in order", "failed", "hung" or "died"; "silent" if its ranks
/// are on other hosts that send no heartbeats; "not known" without flight recorders. A run has
/// failed or hung as soon as one rank has, even if the process of another still exists.
std::string run_state(const std::filesystem::path& run_dir);

/// As above, from what is known about the ranks. `now` is in nanoseconds since 1970. Pure.
std::string run_state(const std::vector<RankView>& views, int64_t now);

/// Returns the text of run_status() from what is known about the ranks. `now` is in nanoseconds
/// since 1970. Pure.
std::string run_status(const std::string& run_dir, const std::vector<RankView>& views, int64_t now);

}  // namespace tessera
