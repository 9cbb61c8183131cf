#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "launch/checkpoint/checkpoint.h"
#include "models/model_config.h"

namespace tessera {

/// Writes the low-rank adapters of a checkpoint, and layers that were trained beside them, into
/// `folder` as PEFT's LoraModel loads them beside the base model: adapter_config.json and
/// adapter_model.safetensors, in `precision` (fp32 or bf16). A joint layer of ours becomes an
/// adapter of each of theirs, all with the same A. `base` says where PEFT finds the base model: a
/// folder or a name on the hub. Returns the names of the files, which are on disk. Throws if the
/// model has no adapters. `padding_token`: see tensor_names().
std::vector<std::string> export_adapter(Checkpoint& checkpoint, const ModelConfig& model,
                                        int64_t padding_token, DType precision,
                                        const std::optional<std::string>& base,
                                        const std::filesystem::path& folder);

}  // namespace tessera
