#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace tessera {

/// Calls `use(folder, is_v2)` for each control group (version 1 or 2) of this process that has
/// `controller` ("cpu", "memory"), from the process's group up to the root. Some of the folders may
/// not exist. /proc and /sys are looked up under `root`.
void for_each_control_group(
    const std::filesystem::path& root, std::string_view controller,
    const std::function<void(const std::filesystem::path& folder, bool is_v2)>& use);

}  // namespace tessera
