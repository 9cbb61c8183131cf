#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct ReportOptions {
  std::vector<std::filesystem::path> runs;  ///< their folders, at least one
  std::string output;                       ///< the page's file; "": see report_file()
  std::optional<int64_t> watch_seconds;     ///< how often to write it again; nullopt: once
};

/// Where the page of these options goes: by default report.html in the folder of a single run, or
/// in the working directory.
std::string report_file(const ReportOptions& options);

/// Writes a page about runs. With `watch_seconds`, writes it again and again until all runs have
/// logged their last step or SIGINT or SIGTERM arrives; later errors of reading or writing are
/// warnings. Throws if a folder is not that of a run, if one is given twice, or if the page cannot
/// be written.
void write_report(const ReportOptions& options);

}  // namespace tessera
