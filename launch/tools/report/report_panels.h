#pragma once

#include <string>
#include <vector>

#include "launch/support/text/json.h"
#include "launch/tools/report/run_record.h"

namespace tessera {

/// A chart of one or more series, which share an axis.
struct ReportPanel {
  enum class Unit : uint8_t { number, percent, seconds, amount };
  struct Series {
    std::string key;    ///< in metrics.jsonl
    std::string label;  ///< among the series of the panel
    bool dots = false;  ///< few values, each of which is marked
  };

  std::string id, title;
  std::string note = {};  ///< what the numbers are, after the title
  Unit unit = Unit::number;
  bool log = false;     ///< whether a logarithmic axis is offered
  bool zero = false;    ///< whether the axis begins at 0
  bool smooth = false;  ///< whether smoothing applies
  std::vector<Series> series = {};
};

/// The panels for which a run has values, with the series that exist.
std::vector<ReportPanel> panels_for(const std::vector<RunRecord>& runs);

Json to_json(const ReportPanel& panel);

}  // namespace tessera
