#pragma once

#include <filesystem>
#include <string>

#include "launch/support/text/json.h"

namespace tessera {

/// RUN/supervise.jsonl: a JSON object per line for each start and end of a supervised run. Each
/// line is also printed for people. Without restarts there is none.
class Journal {
 public:
  Journal(std::filesystem::path run_dir, bool enabled)
      : run_dir_(std::move(run_dir)), enabled_(enabled) {}

  /// Prints `text` as a line on standard error and appends `event` with the time and the other
  /// members of `more`. A file that cannot be written is a warning.
  void add(const std::string& event, const std::string& text, const Json& more);

 private:
  std::filesystem::path run_dir_;
  bool enabled_;
};

}  // namespace tessera
