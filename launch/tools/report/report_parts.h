#pragma once

#include <string_view>

namespace tessera {

/// The style sheet of the report page.
extern const std::string_view kReportStyle;

/// Its script, which draws the panels from the JSON in the element "report", in three parts: what
/// the reader chose and how numbers are shown, the charts, and what the reader does with them.
extern const std::string_view kReportScriptState, kReportScriptCharts, kReportScriptTools;

}  // namespace tessera
