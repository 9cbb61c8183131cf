#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace tessera::cuda {

/// Whether code compiled for one of CMake's CUDA architectures runs on a GPU of compute capability
/// `major`.`minor`. "90-real" is machine code for that major version, from that minor version on.
/// "90-virtual" is PTX, which the driver compiles for it and every later GPU. "90" is both. "90a"
/// runs on exactly that GPU, "100f" on its family, taken to be its major version.
inline bool runs_on(std::string_view architecture, int major, int minor) {
  int number = 0;
  const char* const end = architecture.data() + architecture.size();
  const auto [at, error] = std::from_chars(architecture.data(), end, number);
  if (error != std::errc()) return true;  // "native", "all": the builder is responsible
  const std::string_view rest(at, static_cast<size_t>(end - at));
  const int of_major = number / 10, of_minor = number % 10;
  const bool same_major = major == of_major && minor >= of_minor;
  if (rest.starts_with('a')) return major == of_major && minor == of_minor;
  if (rest.starts_with('f') || rest == "-real") return same_major;
  return 10 * major + minor >= number;
}

/// Whether code for any of a comma-separated list runs on a GPU. An empty list matches every GPU.
inline bool any_runs_on(std::string_view architectures, int major, int minor) {
  if (architectures.empty()) return true;
  while (!architectures.empty()) {
    const size_t comma = architectures.find(',');
    if (runs_on(architectures.substr(0, comma), major, minor)) return true;
    architectures.remove_prefix(comma == std::string_view::npos ? architectures.size() : comma + 1);
  }
  return false;
}

/// Whether code for `name` itself, with or without "-real" or "-virtual", is in such a list. An
/// empty list has all code.
inline bool any_is_for(std::string_view architectures, std::string_view name) {
  if (architectures.empty()) return true;
  while (!architectures.empty()) {
    const size_t comma = architectures.find(',');
    const std::string_view architecture = architectures.substr(0, comma);
    if (architecture.substr(0, architecture.find('-')) == name) return true;
    architectures.remove_prefix(comma == std::string_view::npos ? architectures.size() : comma + 1);
  }
  return false;
}

}  // namespace tessera::cuda
