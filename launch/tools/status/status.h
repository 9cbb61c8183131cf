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

/// The same for what is known about the ranks. `now` is in nanoseconds since 1970. Pure.
std::string run_status(const std::string& run_dir, const std::vector<RankView>& views, int64_t now);

}  // namespace tessera
