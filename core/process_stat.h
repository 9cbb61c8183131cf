#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tessera {

/// Fields of /proc/PID/stat, see proc(5).
struct ProcessStat {
  char state = '?';    ///< 'R', 'S', 'D', 'T', 'Z', ...
  int parent = 0;      ///< 0: none that is visible here
  uint64_t start = 0;  ///< in clock ticks since boot; tells processes of one PID apart
};

/// Returns nullopt if there is no such process. A zombie still is one.
std::optional<ProcessStat> read_process_stat(int process);

/// Reads it from a folder: /proc/PID, or /proc/PID/task/TID for a thread.
std::optional<ProcessStat> read_process_stat(const std::filesystem::path& folder);

}  // namespace tessera
