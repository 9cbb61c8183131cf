#pragma once

#include <string>
#include <vector>

#include "launch/tools/report/run_record.h"

namespace tessera {

/// Adds a section with the maps of the heads that runs logged (log.attention_interval), if any.
void add_attention(std::string& html, const std::vector<RunRecord>& runs,
                   const std::vector<std::string>& names);

}  // namespace tessera
