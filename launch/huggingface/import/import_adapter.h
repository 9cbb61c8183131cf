#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/checkpoint/checkpoint.h"

namespace tessera {

struct AdapterImportOptions {
  std::filesystem::path from;  ///< a folder with adapter_config.json, as PEFT's save_pretrained()
  std::filesystem::path base;  ///< a run or step with the base model
  std::filesystem::path to;    ///< a run's folder, without checkpoints
};

struct AdapterImportReport {
  std::filesystem::path checkpoint;  ///< the new step's folder
  int64_t rank = 0;                  ///< model.lora_rank
  int64_t layers = 0;                ///< layers of ours with an adapter
  std::vector<std::string> modules;  ///< that come whole, as transformers names them
  std::vector<std::string> notes;    ///< what the folder does not say
};

/// Whether a folder holds an adapter and not a model.
bool is_adapter_folder(const std::filesystem::path& folder);

/// Makes RUN/checkpoints/step_00000000 from the base model's weights, the low-rank adapters in a
/// folder, and what was trained as a whole (saved_modules.h). Where a joint layer of ours is
/// several of theirs with different A, such as queries, keys and values, its rank is the sum of
/// theirs: A holds one after the other, and B has blocks of zeros. All adapters then have this
/// rank; zeros fill the rest. Throws, naming the problem and creating nothing, if the adapters are
/// of another kind or for another model, or if RUN has checkpoints.
AdapterImportReport import_adapter(const AdapterImportOptions& options);

}  // namespace tessera
