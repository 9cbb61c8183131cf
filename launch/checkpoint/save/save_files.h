#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/save/publish.h"
#include "launch/checkpoint/save/save_plan.h"

namespace tessera {

/// Writes the files that the plan assigns to `rank`, and syncs them. Returns sizes and checksums,
/// which only the writer knows, as text for the other ranks. Observes "during_data" after each
/// slice.
std::string write_files(const std::filesystem::path& folder, SavePlan& plan, int rank,
                        const std::vector<LocalTensor>& tensors, const SaveObserver& observer);

/// Writes the attachments, syncs them, and adds them to the manifest.
void write_attachments(const std::filesystem::path& folder,
                       const std::map<std::string, std::string>& attachments, Manifest& manifest);

/// Fills the manifest's files and tensors from the plan and the results of write_files on every
/// rank. Throws if a file is not visible here with its size, as on machines that do not share the
/// folder.
void fill_manifest(const std::filesystem::path& folder, SavePlan plan,
                   const std::vector<std::string>& written_of_rank, Manifest& manifest);

}  // namespace tessera
