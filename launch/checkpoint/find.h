#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Receives a line for each checkpoint that was passed over: which, and why.
using ReportSkipped = std::function<void(std::string)>;

/// The folder of the newest checkpoint of a run that verifies; nothing if there is none. The path
/// may be that of a checkpoint whose replacement was cut short and which is hidden until the next
/// save. Reads every byte of what it returns. Changes nothing.
std::optional<std::filesystem::path> newest_whole_checkpoint(const std::filesystem::path& run_dir,
                                                             const ReportSkipped& report_skipped);

/// The same on every rank of a group, collectively: rank 0 looks, and alone reports.
std::optional<std::filesystem::path> newest_whole_checkpoint(const std::filesystem::path& run_dir,
                                                             const ReportSkipped& report_skipped,
                                                             Communicator& world);

/// Prints such a line on stderr, as a warning.
void warn_of_skipped(const std::string& line);

/// The step's folder that a user's path means: itself, or the newest whole checkpoint of a run's
/// folder or of its checkpoints folder. It ends in the step's name, without a slash. Reports each
/// newer one that was passed over. Throws, with what is there and why it was passed over, if there
/// is none.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path,
                                         const ReportSkipped& report_skipped = warn_of_skipped);

/// The same on every rank of a group, collectively: rank 0 looks, and alone reports.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path, Communicator& world,
                                         const ReportSkipped& report_skipped = warn_of_skipped);

}  // namespace tessera
