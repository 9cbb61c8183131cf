#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <string>

#include "launch/support/text/json.h"

namespace tessera {

/// A line of a log of JSON objects, such as metrics.jsonl, which may be damaged.
struct JsonLogLine {
  int64_t number;           ///< from 1
  const std::string& text;  ///< without its end; empty if it has more than 16 MiB
  Json object;              ///< null unless the line is a JSON object (parse_json)
  bool has_end;             ///< false for a line that is still being written, or was cut off
};

using VisitJsonLog = std::function<void(const JsonLogLine& line)>;

/// Calls `visit` for each line, the last one after 256 MiB without an end.
void for_each_json_line(std::istream& lines, const VisitJsonLog& visit);

/// Visits the lines of a regular file. Returns false if it cannot be read, or is something else.
bool for_each_json_line(const std::filesystem::path& path, const VisitJsonLog& visit);

}  // namespace tessera
