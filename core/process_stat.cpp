#include "core/process_stat.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace tessera {

std::optional<ProcessStat> read_process_stat(int process) {
  return read_process_stat("/proc/" + std::to_string(process));
}

// "PID (name) state parent ...", where the name may contain spaces and parentheses.
std::optional<ProcessStat> read_process_stat(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state >> stat.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  fields >> stat.start;
  if (!fields) return std::nullopt;
  return stat;
}

}  // namespace tessera
