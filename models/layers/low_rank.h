#pragma once

#include <string>

#include "models/model_config.h"
#include "parallel/layers/low_rank_adapter.h"

namespace tessera {

/// The adapter of the linear layer `name`: none unless model.lora_targets has it.
LowRank low_rank_of(const ModelConfig& config, const std::string& name);

}  // namespace tessera
