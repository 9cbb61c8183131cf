#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

struct ReportOptions {
  std::vector<std::filesystem::path> runs;  ///< their folders, at least one
  std::string output;                       ///< the page's file; "": see report_file()
  std::optional<int64_t> watch_seconds;     ///< how often to write it again; nullopt: once
  bool overwrite = false;                   ///< whether it may replace what is no such page
};

/// Path of the page of these options: by default report.html in the folder of a single run, or in
/// the working directory.
std::string report_file(const ReportOptions& options);

/// Writes the page of some runs, as often as it is asked to.
class ReportWriter {
 public:
  explicit ReportWriter(ReportOptions options);

  /// Replaces the page, which loads itself again after `watch_seconds` if it `may_reload` and a run
  /// has steps left. Returns whether one has. Throws if a run cannot be read or the page cannot be
  /// written.
  bool write(bool may_reload);

  const std::string& file() const { return file_; }

 private:
  const std::string& plan(const std::string& config_text, size_t run);

  ReportOptions options_;
  std::string file_;
  std::vector<std::pair<std::string, std::string>> plans_;  // config.yaml, and the plan
};

/// Writes a page about runs. With `watch_seconds`, writes it again and again until all runs have
/// logged their last step or SIGINT or SIGTERM arrives; later errors of reading or writing are
/// warnings. Throws if a folder is not that of a run, if one is given twice, or if the page cannot
/// be written.
void write_report(const ReportOptions& options);

}  // namespace tessera
