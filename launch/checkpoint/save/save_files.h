#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/save/local_tensor.h"
#include "launch/checkpoint/save/publish.h"

namespace tessera {

/// Writes this rank's tensors, one file for each kind, and syncs the files. Returns what only the
/// writer knows, as text for fill_manifest(). Observes "during_data" after each slice.
std::string write_files(const std::filesystem::path& folder, int rank,
                        const std::vector<LocalTensor>& tensors, const SaveObserver& observer);

/// Writes the attachments, syncs them, and adds them to the manifest.
void write_attachments(const std::filesystem::path& folder,
                       const std::map<std::string, std::string>& attachments, Manifest& manifest);

/// Fills the manifest's files and tensors from the results of write_files on every rank, which it
/// empties one by one. Throws if ranks disagree on a tensor, if their slices do not tile it, or if
/// a file is not visible here with its size, as on machines that do not share the folder.
void fill_manifest(const std::filesystem::path& folder, std::vector<std::string> written_of_rank,
                   Manifest& manifest);

}  // namespace tessera
