#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/checkpoint/checkpoint.h"
#include "models/model_config.h"

namespace tessera {

/// Writes a checkpoint's weights, with low-rank adapters merged in, into `folder` under Hugging
/// Face's names and in its layouts, in `precision` (fp32 or bf16): model.safetensors, or, for more
/// than `max_shard_bytes` of tensors, model-00001-of-N.safetensors and so on with
/// model.safetensors.index.json. Only a file with a single tensor may exceed that size. Keeps one
/// tensor in memory at a time. Returns the names of the files, which are on disk. Throws if a
/// weight is missing, damaged or of another shape than `model`'s. `padding_token`: see
/// tensor_names().
std::vector<std::string> export_weights(Checkpoint& checkpoint, const ModelConfig& model,
                                        int64_t padding_token, DType precision,
                                        int64_t max_shard_bytes,
                                        const std::filesystem::path& folder);

}  // namespace tessera
