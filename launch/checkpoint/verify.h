#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// The result of verify_checkpoint().
struct VerifyReport {
  std::filesystem::path path;
  int64_t step = 0;
  size_t tensors = 0;
  size_t files = 0;
  int64_t bytes = 0;                  ///< of all files except the manifest
  std::vector<std::string> problems;  ///< empty for an intact checkpoint

  bool whole() const { return problems.empty(); }
};

/// "step_00000100: intact, 24 tensors in 4 files, 12.3 MB", or "step_00000100: damaged" and the
/// first problems in full.
std::string to_string(const VerifyReport& report);

/// Checks a step's folder: its manifest, and every file and slice against its checksum. Never
/// throws because of its contents, however damaged.
VerifyReport verify_checkpoint(const std::filesystem::path& step_folder);

}  // namespace tessera
