#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// The metadata key of a safetensors file under which an export stores its version. Other programs
/// ignore it, and do not write it when they save what they loaded.
inline constexpr const char* kExportMark = "tessera_version";

/// Why a folder does not count as an earlier export: "holds notes.txt, which no export writes". ""
/// if the folder is empty, or contains only an export's files, weights included.
std::string why_no_export(const std::filesystem::path& folder);

}  // namespace tessera
