#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/checkpoint/format/step_folder.h"

namespace tessera {

/// Called at named points of a save, so that tests can make it fail or die there; empty in a real
/// run.
using SaveObserver = std::function<void(const char* point)>;

/// Renames the checkpoint at `temporary`, which is complete and on disk, to its step's name.
/// Returns and throws as swap_in_folder() does. Clean-up restores an earlier checkpoint that a dead
/// save left without a name.
std::optional<std::filesystem::path> name_checkpoint(const HiddenFolder& temporary,
                                                     const std::string& id,
                                                     const SaveObserver& observer,
                                                     bool may_exchange = true);

/// Deletes what dead saves left in a checkpoints folder, and restores the name of a checkpoint that
/// one was replacing. Returns the problems.
std::vector<std::string> clean_up_after_dead_saves(const std::filesystem::path& checkpoints);

/// Deletes steps before `step`, except `best` and those among the newest `keep` intact ones,
/// counting `step` as the first. Intact here means that the manifest is undamaged and every file
/// exists with its size. With a `keep` of 0, deletes those that were saved by time, down to the
/// newest that was not. Keeps later steps, which an earlier course of the run may have left.
/// Returns the problems.
std::vector<std::string> prune_checkpoints(const std::filesystem::path& checkpoints, int64_t step,
                                           int keep, std::optional<int64_t> best,
                                           const std::string& id, const SaveObserver& observer);

}  // namespace tessera
