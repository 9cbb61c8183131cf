#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/checkpoint/format/step_folder.h"

namespace tessera {

/// Called at named points of a save so that tests can make it fail or die there; empty in a run.
using SaveObserver = std::function<void(const char* point)>;

/// Names the checkpoint at `temporary`, which is complete and on the disk, as its step's, and
/// returns where an earlier checkpoint of the step is now, if there was one. That stays whole,
/// under one name or another, and may be deleted when the new name is on the disk, which
/// sync_folder() sees to. What throws has named nothing. `may_exchange` is false to go the way of
/// file systems that can not exchange two folders in one step.
std::optional<std::filesystem::path> name_checkpoint(const HiddenFolder& temporary,
                                                     const std::string& id,
                                                     const SaveObserver& observer,
                                                     bool may_exchange = true);

/// Deletes what dead saves left in a checkpoints folder, and gives a checkpoint that one was
/// replacing its name back. Returns what could not be done.
std::vector<std::string> clean_up_after_dead_saves(const std::filesystem::path& checkpoints);

/// Deletes the steps before `step` but those that are among the newest `keep` whole ones, `step`
/// being the first; whole here means that the manifest is undamaged and every file is there with
/// its size. Steps after `step`, which an earlier course of the run may have left, stay. Returns
/// what could not be done.
std::vector<std::string> prune_checkpoints(const std::filesystem::path& checkpoints, int64_t step,
                                           int keep, const std::string& id,
                                           const SaveObserver& observer);

}  // namespace tessera
