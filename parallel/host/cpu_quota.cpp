#include "parallel/host/cpu_quota.h"

#include <algorithm>
#include <fstream>

#include "parallel/host/control_groups.h"

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

// Version 1: one file per number; a quota of -1 means no limit.
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

}  // namespace

std::optional<double> find_cpu_quota(const fs::path& root) {
  std::optional<double> least;
  for_each_control_group(root, "cpu", [&](const fs::path& group, bool v2) {
    take_least(least, v2 ? read_v2(group) : read_v1(group));
  });
  return least;
}

}  // namespace tessera
