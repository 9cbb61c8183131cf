#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/tools/report/run_record.h"

namespace tessera {

/// Contents of a page besides the runs.
struct ReportFrame {
  std::string written;                    ///< when it was written
  std::optional<int64_t> reload_seconds;  ///< until it loads itself again, while a run is alive
  std::vector<std::string> plans = {};    ///< of each run: its memory plan as text, or ""
};

/// More points of a series are thinned out.
inline constexpr size_t kMostPoints = 3000;

/// Renders runs, at least one, as one self-contained HTML page: charts of what they logged,
/// results, samples, the keys that differ, starts and other events, and the configurations. Charts
/// need JavaScript, everything else does not. Text of the runs is always shown as text and never
/// runs.
std::string to_html(const std::vector<RunRecord>& runs, const ReportFrame& frame);

}  // namespace tessera
