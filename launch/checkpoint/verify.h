#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// What verify_checkpoint found.
struct VerifyReport {
  std::filesystem::path path;
  int64_t step = 0;
  size_t tensors = 0;
  size_t files = 0;
  int64_t bytes = 0;                  ///< of all files but the manifest
  std::vector<std::string> problems;  ///< none in a whole checkpoint

  bool whole() const { return problems.empty(); }
};

/// "step_00000100: whole, 24 tensors in 4 files, 12.3 MB", or "step_00000100: damaged" and the
/// problems, the first ones in full.
std::string to_string(const VerifyReport& report);

/// Reads a whole step's folder: its manifest, and every file and slice against its checksum. Throws
/// for nothing that is in the folder, however damaged.
VerifyReport verify_checkpoint(const std::filesystem::path& step_folder);

}  // namespace tessera
