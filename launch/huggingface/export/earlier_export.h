#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// The key, in the metadata of a safetensors file, under which an export names its version. Other
/// programs pass it over, and do not write it when they save what they loaded.
inline constexpr const char* kExportMark = "tessera_version";

/// Why a folder may not be taken for an earlier export: "holds notes.txt, which no export writes".
/// The empty string of a folder that holds nothing else than an export's files, with its weights,
/// or nothing at all.
std::string why_no_export(const std::filesystem::path& folder);

}  // namespace tessera
