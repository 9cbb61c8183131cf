#include "models/layers/low_rank.h"

#include "core/name_pattern.h"

namespace tessera {

LowRank low_rank_of(const ModelConfig& config, const std::string& name) {
  if (config.lora_rank == 0 || !matches_any(config.lora_targets, name)) return {};
  return {config.lora_rank,
          static_cast<float>(config.lora_alpha / static_cast<double>(config.lora_rank)),
          config.lora_dropout};
}

}  // namespace tessera
