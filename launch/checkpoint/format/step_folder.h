#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// RUN/checkpoints
std::filesystem::path checkpoints_folder(const std::filesystem::path& run_dir);

/// "step_00000100"
std::string step_name(int64_t step);

/// The step of such a name; nullopt for any other name.
std::optional<int64_t> step_of(const std::string& name);

/// A folder named like a step; its contents are not checked.
struct StepFolder {
  int64_t step = 0;
  std::filesystem::path path;
};

/// The steps in a checkpoints folder, newest first; empty if the folder does not exist.
std::vector<StepFolder> step_folders(const std::filesystem::path& checkpoints);

/// Why a hidden folder is there.
enum class HiddenKind : uint8_t {
  temporary,  ///< being written, or was when its run died
  replaced,   ///< the earlier checkpoint of a step that is being replaced
  pruned,     ///< being deleted
};

/// A folder next to the steps that is not yet, or no longer, a checkpoint.
struct HiddenFolder {
  int64_t step = 0;
  HiddenKind kind = HiddenKind::temporary;
  std::filesystem::path path;
};

/// ".step_00000100.temporary-<id>"
std::string hidden_name(int64_t step, HiddenKind kind, const std::string& id);

/// The hidden folders in a checkpoints folder, by name. Lists only names made by hidden_name().
std::vector<HiddenFolder> hidden_folders(const std::filesystem::path& checkpoints);

}  // namespace tessera
