#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/checkpoint/save/publish.h"
#include "launch/checkpoint/save/save_plan.h"
#include "launch/support/text/json.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// What a rank gives to save_checkpoint. All but `tensors` and `observer` is the same on all ranks.
struct SaveRequest {
  std::filesystem::path run_dir;
  int64_t step = 0;
  int64_t samples = 0;          ///< the position in the global order of samples
  Json model = Json::object();  ///< the model's config
  Json extra = Json::object();  ///< whatever else the run wants to find again
  /// Small files that are kept in the step's folder, by name: "tokenizer.json". Rank 0 writes its
  /// own.
  std::map<std::string, std::string> attachments;
  /// Every tensor that this rank holds, replicas included.
  std::vector<HeldTensor> tensors;
  /// Whether a training run saves its step, of which a message then speaks. False: what fails says
  /// only what is wrong.
  bool in_a_run = true;
  /// How many whole checkpoints stay, this one and older ones; 0 keeps all.
  int keep = 0;
  /// Its points, in order: "after_create", in the background "after_copy", "during_data" (after
  /// each slice), "after_data",
  /// "before_manifest", "after_manifest", "before_rename", "during_swap" (see
  /// name_checkpoint), "after_rename", "during_prune", "after_prune". On ranks other than 0 only
  /// the data's.
  SaveObserver observer;
};

struct SavedCheckpoint {
  std::filesystem::path path;
  int64_t step = 0;
  double seconds = 0.0;             ///< that steps waited for it, where somebody measured that
  double background_seconds = 0.0;  ///< of work while steps went on, on the slowest rank and rank 0
  /// On rank 0: what could not be cleaned up. The checkpoint is good all the same.
  std::vector<std::string> warnings;
};

/// Writes RUN/checkpoints/step_NNNNNNNN, collectively: all ranks write their share into a hidden
/// folder and sync it, then rank 0 adds the manifest, syncs and renames the folder. A checkpoint
/// that has its step's name is therefore whole; if the machine dies at any point, the earlier ones
/// are too. A checkpoint of the same step is replaced. When the new one is in place, old ones are
/// pruned as `keep` says.
///
/// If a rank fails, all ranks throw the same SharedError; what was written is deleted and earlier
/// checkpoints stay as they are. The tensors are only read. Two runs may not share a folder.
SavedCheckpoint save_checkpoint(const SaveRequest& request, Communicator& world);

}  // namespace tessera
