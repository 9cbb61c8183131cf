#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

/// The metadata key of a safetensors file under which an export stores its version. Other programs
/// ignore it, and do not write it when they save what they loaded.
inline constexpr const char* kExportMark = "tessera_version";

/// Why a folder does not count as an earlier export: "holds notes.txt, which no export writes".
/// nullopt if the folder is empty, or contains only an export's files, weights included.
std::optional<std::string> not_an_export_reason(const std::filesystem::path& folder);

}  // namespace tessera
