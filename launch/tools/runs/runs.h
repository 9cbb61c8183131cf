#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// The folders of runs, which have a config.yaml and a metrics.jsonl, that are `folder` or below
/// it, at most 4 levels deep. Skips hidden folders, links to folders, and folders that it may not
/// read. Throws if `folder` is not a folder.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);

/// A table of runs: state, step, loss, best evaluation, speed, time left and when they last wrote a
/// line, the most recent first. A run that cannot be read has a row that says why.
std::string runs_table(const std::vector<std::filesystem::path>& runs);

}  // namespace tessera
