#include "parallel/host/control_groups.h"

#include <fstream>
#include <string>

namespace tessera {
namespace {

bool lists(const std::string& controllers, std::string_view controller) {
  const std::string wanted = "," + std::string(controller) + ",";
  return ("," + controllers + ",").find(wanted) != std::string::npos;
}

}  // namespace

void for_each_control_group(
    const std::filesystem::path& root, std::string_view controller,
    const std::function<void(const std::filesystem::path& folder, bool is_v2)>& use) {
  std::ifstream memberships(root / "proc/self/cgroup");
  std::string line;  // hierarchy:controllers:path; controllers is empty in version 2
  while (std::getline(memberships, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !lists(controllers, controller)) continue;

    const std::filesystem::path mount = root / "sys/fs/cgroup" / controllers;
    // In a container, the path may be the host's and its files invisible. The container's own group
    // is then the root of the mount, where this loop ends in any case.
    for (std::filesystem::path path =
             std::filesystem::path(line.substr(second + 1)).relative_path();
         ; path = path.parent_path()) {
      use(mount / path, v2);
      if (path.empty()) break;
    }
  }
}

}  // namespace tessera
