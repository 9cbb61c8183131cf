#include "launch/tools/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "launch/config/load_config.h"
#include "launch/support/end_signals.h"
#include "launch/support/files/whole_files.h"
#include "launch/support/text/html.h"
#include "launch/support/text/print.h"
#include "launch/support/text/utc_time.h"
#include "launch/tools/plan/run_plan.h"
#include "launch/tools/report/report_page.h"
#include "launch/tools/report/run_record.h"
#include "parallel/watchdog/rank_snapshot.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The ranks of a run's last start, from its flight recorders; 0 if there are none.
int64_t ranks_of(const fs::path& run) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(flight_folder(run), error)) {
    if (!entry.path().filename().string().starts_with("rank_")) continue;
    return read_snapshot(entry.path()).ranks;
  }
  return 0;
}

/// The plan of a run's last layout; "" if that is not known.
std::string plan_of(const fs::path& run) {
  try {
    const int64_t ranks = ranks_of(run);
    return ranks == 0 ? "" : to_string(plan_run(load_config(run / "config.yaml"), ranks));
  } catch (const Error& error) {
    return fmt::format("not known: {}\n", error.what());
  }
}

/// Writes the page until no run has steps left, or a signal arrives.
void watch(ReportWriter& writer, int64_t seconds) {
  const EndSignals signals;
  bool has_steps_left = writer.write(/*may_reload=*/true);
  print_out("wrote {}{}\n", writer.file(),
            has_steps_left ? fmt::format(", again every {} s until Ctrl-C", seconds)
                           : ": no run has steps left");
  std::string warned;
  while (has_steps_left && EndSignals::wait(static_cast<double>(seconds))) {
    try {
      has_steps_left = writer.write(/*may_reload=*/true);
      warned.clear();
    } catch (const Error& error) {
      if (std::exchange(warned, error.what()) == error.what()) continue;
      print_error("warning: the report is not written: {}\n", error.what());
    }
  }
  if (has_steps_left) writer.write(/*may_reload=*/false);
}

void refuse_repeated(const std::vector<fs::path>& runs) {
  std::vector<fs::path> seen;
  for (const fs::path& run : runs) {
    std::error_code error;
    fs::path path = fs::canonical(run, error);
    if (error) continue;  // read_run() says why
    if (!path.has_filename()) path = path.parent_path();
    require(std::ranges::find(seen, path) == seen.end(), "the run {} is given twice", run.string());
    seen.push_back(std::move(path));
  }
}

}  // namespace

ReportWriter::ReportWriter(ReportOptions options)
    : options_(std::move(options)), file_(report_file(options_)), plans_(options_.runs.size()) {}

bool ReportWriter::write(bool may_reload) {
  std::vector<RunRecord> runs;
  for (const fs::path& run : options_.runs) runs.push_back(read_run(run));
  const bool has_steps_left =
      std::ranges::any_of(runs, [](const RunRecord& run) { return !run.has_finished(); });
  ReportFrame frame{.written = now_in_utc(), .reload_seconds = std::nullopt};
  if (may_reload && has_steps_left) frame.reload_seconds = options_.watch_seconds;
  for (size_t i = 0; i < runs.size(); ++i) frame.plans.push_back(plan(runs[i].config_text, i));
  write_whole_files({{file_, to_html(runs, frame)}}, replace_page(file_, options_.overwrite));
  return has_steps_left;
}

// Plans again only after the configuration has changed.
const std::string& ReportWriter::plan(const std::string& config_text, size_t run) {
  auto& [config, text] = plans_[run];
  if (config != config_text) {
    text = plan_of(options_.runs[run]);
    config = config_text;
  }
  return text;
}

std::string report_file(const ReportOptions& options) {
  if (!options.output.empty()) return options.output;
  return options.runs.size() == 1 ? (options.runs[0] / "report.html").string() : "report.html";
}

void write_report(const ReportOptions& options) {
  require(!options.runs.empty(), "a report needs at least one run");
  refuse_repeated(options.runs);
  ReportWriter writer(options);
  if (options.watch_seconds) return watch(writer, *options.watch_seconds);
  writer.write(/*may_reload=*/false);
  print_out("wrote {}\n", writer.file());
}

}  // namespace tessera
