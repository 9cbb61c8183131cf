#pragma once

#include <string>

#include "launch/tools/attention/attention_report.h"

namespace tessera {

/// Renders a report as one self-contained HTML page: an overview of all heads, and one heat map per
/// head of the chosen layer, queries down and keys across. Masked cells are hatched. The exact
/// numbers appear under the pointer; everything else works without JavaScript. Tokens are always
/// shown as text and never run. Throws like check().
std::string to_html(const AttentionReport& report);

}  // namespace tessera
