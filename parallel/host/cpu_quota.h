#pragma once

#include <filesystem>
#include <optional>

namespace tessera {

/// How many CPUs' time this process's control groups (version 1 or 2) allow it, such as 2.5 for a
/// container started with `--cpus 2.5`; the least along the path to the root group. None where
/// there is no limit. `root` is where /proc and /sys are looked for.
/// https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files
std::optional<double> find_cpu_quota(const std::filesystem::path& root = "/");

}  // namespace tessera
