#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace tessera {

/// Calls `use(folder, is_v2)` for the control groups (version 1 or 2) of this process that know of
/// `controller` ("cpu", "memory"), each with the groups that it is in, up to the root. Not all of
/// the folders exist. `root` is where /proc and /sys are looked for.
void for_each_control_group(
    const std::filesystem::path& root, std::string_view controller,
    const std::function<void(const std::filesystem::path& folder, bool is_v2)>& use);

}  // namespace tessera
