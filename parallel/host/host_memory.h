#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace tessera {

/// Bytes that processes can still allocate on this host: the system's available memory, or less if
/// a control group (version 1 or 2) of this process has a limit. Cached file data counts as free.
/// Empty if the system does not report it. /proc and /sys are looked up under `root`.
/// https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
std::optional<size_t> find_available_memory(const std::filesystem::path& root = "/");

}  // namespace tessera
