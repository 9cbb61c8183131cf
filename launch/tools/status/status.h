#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "parallel/watchdog/hang_report.h"

namespace tessera {

/// What each rank of a run does, or did last, from its flight recorders. Throws if the folder has
/// none.
std::string run_status(const std::filesystem::path& run_dir);

/// What a run does in one or two words: "training", "saving", "evaluating", "starting" or "waiting"
/// while it lives; otherwise "ended in order", "failed", "hung" or "died"; "silent" if its ranks
/// are on other hosts that send no heartbeats; "not known" without flight recorders. A run has
/// failed or hung as soon as one rank has, even if the process of another still exists.
std::string run_state(const std::filesystem::path& run_dir);

/// The same for what is known about the ranks. `now` is in nanoseconds since 1970. Pure.
std::string run_state(const std::vector<RankView>& views, int64_t now);

/// What run_status() shows for what is known about the ranks. `now` is in nanoseconds since 1970.
/// Pure.
std::string run_status(const std::string& run_dir, const std::vector<RankView>& views, int64_t now);

}  // namespace tessera
