#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace tessera {

/// Bytes that processes can still take on this host: what the system says is available, or less
/// where a control group (version 1 or 2) that this process is in has a limit. What is cached of
/// files counts as free. None if the system does not tell. `root` is where /proc and /sys are
/// looked for.
/// https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
std::optional<size_t> find_available_memory(const std::filesystem::path& root = "/");

}  // namespace tessera
