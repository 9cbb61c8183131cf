#pragma once

#include <string_view>

namespace tessera {

/// The style sheet of the report page.
extern const std::string_view kReportStyle;

/// Its script, which draws the panels from the JSON in the element "report".
extern const std::string_view kReportScript;

}  // namespace tessera
