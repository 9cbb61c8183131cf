#include "parallel/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::optional<double> positive_ratio(double quota, double period) {
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

// Version 2: one file, "200000 100000" or "max 100000".
std::optional<double> read_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0;
  double period = 0;
  if (file >> quota >> period) return positive_ratio(quota, period);
  return std::nullopt;
}

// Version 1: a file for each number, with the quota -1 where there is none.
std::optional<double> read_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (quota_file >> quota && period_file >> period) return positive_ratio(quota, period);
  return std::nullopt;
}

void take_least(std::optional<double>& least, std::optional<double> quota) {
  if (quota) least = least ? std::min(*least, *quota) : *quota;
}

bool lists_cpu_controller(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

std::optional<double> find_cpu_quota(const fs::path& root) {
  std::ifstream memberships(root / "proc/self/cgroup");
  std::optional<double> least;
  std::string line;  // hierarchy:controllers:path, with no controllers for version 2
  while (std::getline(memberships, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !lists_cpu_controller(controllers)) continue;

    const fs::path mount = root / "sys/fs/cgroup" / controllers;
    // Inside a container the path may be the host's and its files not visible; the container's own
    // group is then the root of the mount, where this ends in any case.
    for (fs::path path = fs::path(line.substr(second + 1)).relative_path();;
         path = path.parent_path()) {
      take_least(least, v2 ? read_v2(mount / path) : read_v1(mount / path));
      if (path.empty()) break;
    }
  }
  return least;
}

}  // namespace tessera
