#pragma once

#include <string>

#include "launch/tools/attention/attention_report.h"

namespace tessera {

/// A report as one HTML page that needs nothing else: an overview of all heads, and for the chosen
/// layer a heat map a head, queries down and keys across. What the mask hides is hatched. The
/// numbers are in the page too, and appear under the pointer; all but that works without
/// JavaScript. Whatever bytes the tokens have, they are shown as text and never run. Throws as
/// check() does.
std::string to_html(const AttentionReport& report);

}  // namespace tessera
