#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Receives a line for each skipped checkpoint: which one, and why.
using ReportSkipped = std::function<void(std::string)>;

/// The folder of a run's newest checkpoint before `before_step` that verifies; nullopt if there is
/// none. It may be a hidden folder left by an interrupted replacement, which stays hidden until the
/// next save. Reads every byte of the result. Changes nothing.
std::optional<std::filesystem::path> newest_intact_checkpoint(const std::filesystem::path& run_dir,
                                                              const ReportSkipped& report_skipped,
                                                              int64_t before_step = INT64_MAX);

/// Returns the same result on every rank: only rank 0 searches and reports. Collective.
std::optional<std::filesystem::path> newest_intact_checkpoint(const std::filesystem::path& run_dir,
                                                              const ReportSkipped& report_skipped,
                                                              Communicator& world,
                                                              int64_t before_step = INT64_MAX);

/// Prints such a line on stderr as a warning.
void warn_of_skipped(const std::string& line);

/// The step's folder that a user's path stands for: the path itself, or the newest intact
/// checkpoint of a run's folder or of its checkpoints folder. The result ends in the step's name,
/// without a slash. Reports each newer checkpoint it skipped. Throws if there is none, listing what
/// it skipped and why.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path,
                                         const ReportSkipped& report_skipped = warn_of_skipped);

/// Returns the same result on every rank: only rank 0 searches and reports. Collective.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path, Communicator& world,
                                         const ReportSkipped& report_skipped = warn_of_skipped);

}  // namespace tessera
