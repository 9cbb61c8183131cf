#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/checkpoint/save/local_tensor.h"
#include "launch/checkpoint/save/publish.h"
#include "launch/support/text/json.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// A rank's arguments of save_checkpoint. All but `tensors`, `attachments` and `observer` are the
/// same on all ranks.
struct SaveRequest {
  std::filesystem::path run_dir;
  int64_t step = 0;
  int64_t samples = 0;          ///< the position in the global order of samples
  Json model = Json::object();  ///< the model's config
  Json extra = Json::object();  ///< other data that the run needs to resume
  /// Small files in the step's folder, by name: "tokenizer.json". Rank 0 writes its own.
  std::map<std::string, std::string> attachments;
  /// The pieces that this rank writes. Those of all ranks tile each tensor, and none is given by
  /// two ranks; the ranks find out only when all have written.
  std::vector<LocalTensor> tensors;
  /// Whether a training run is saving its step; messages then mention it. If false, an error only
  /// says what is wrong.
  bool in_a_run = true;
  /// Number of intact checkpoints to keep, including this one; 0 keeps all that are not by time.
  int keep = 0;
  std::optional<int64_t> best;  ///< a step whose checkpoint is kept, too
  /// If set, called by all ranks once the tensors are copied or, without copies, written. If it
  /// throws SharedError, nothing is saved.
  std::function<void()> check = {};
  /// Called at these points, in order: "after_create", in the background "after_copy",
  /// "during_data" (after each slice), "after_data", "before_manifest", "after_manifest",
  /// "before_rename", "during_swap" (see name_checkpoint), "after_rename", "during_prune",
  /// "after_prune". Ranks other than 0 only reach those of the data.
  SaveObserver observer;
};

struct SavedCheckpoint {
  std::filesystem::path path;
  int64_t step = 0;
  double seconds = 0.0;             ///< time that steps waited for it, if measured
  double background_seconds = 0.0;  ///< overlapped with steps, on the slowest rank and rank 0
  /// On rank 0: what could not be cleaned up. The checkpoint is valid anyway.
  std::vector<std::string> warnings;
};

/// Writes RUN/checkpoints/step_NNNNNNNN. All ranks write their share into a hidden folder and sync
/// it; then rank 0 adds the manifest, syncs and renames the folder. A checkpoint under its step's
/// name is therefore complete, and if the machine dies at any point, earlier checkpoints stay
/// intact. Replaces a checkpoint of the same step. Then prunes old ones according to `keep`.
/// Collective.
///
/// If a rank fails, all ranks throw the same SharedError; written files are deleted and earlier
/// checkpoints are unchanged. The tensors are only read. Two runs must not share a folder.
SavedCheckpoint save_checkpoint(const SaveRequest& request, Communicator& world);

}  // namespace tessera
