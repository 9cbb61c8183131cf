#include "parallel/host/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "parallel/host/control_groups.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::optional<size_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  size_t number = 0;  // "max" means no limit
  if (file >> number) return number;
  return std::nullopt;
}

/// The number that follows `name` in a file of names and numbers.
std::optional<size_t> read_entry(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + " ") && !line.starts_with(name + ":")) continue;
    const size_t digit = line.find_first_of("0123456789", name.size());
    if (digit != std::string::npos) return std::stoull(line.substr(digit));
  }
  return std::nullopt;
}

/// Bytes left below a group's limit, if it has one.
std::optional<size_t> left_in(const fs::path& group, bool v2) {
  const auto limit = read_number(group / (v2 ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = read_number(group / (v2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  size_t cached = 0;
  for (const char* entry : {"inactive_file", "active_file"}) {
    cached +=
        read_entry(group / "memory.stat", (v2 ? "" : "total_") + std::string(entry)).value_or(0);
  }
  const size_t kept = *used - std::min(*used, cached);
  return *limit - std::min(*limit, kept);
}

}  // namespace

std::optional<size_t> find_available_memory(const fs::path& root) {
  std::optional<size_t> least;
  if (const auto kib = read_entry(root / "proc/meminfo", "MemAvailable")) least = *kib * 1024;
  for_each_control_group(root, "memory", [&](const fs::path& group, bool v2) {
    if (const auto left = left_in(group, v2)) {
      least = std::min(*left, least.value_or(std::numeric_limits<size_t>::max()));
    }
  });
  return least;
}

}  // namespace tessera
