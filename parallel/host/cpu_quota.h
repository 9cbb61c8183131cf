#pragma once

#include <filesystem>
#include <optional>

namespace tessera {

/// The CPU limit of this process's control groups (version 1 or 2), such as 2.5 for a container
/// started with `--cpus 2.5`: the lowest limit on the path to the root group. Empty if there is no
/// limit. /proc and /sys are looked up under `root`.
/// https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files
std::optional<double> find_cpu_quota(const std::filesystem::path& root = "/");

}  // namespace tessera
