#pragma once

#include <string_view>

#include "launch/config/run_config.h"

namespace tessera {

/// Throws, naming the key, if keys of a model contradict one another, or one is set that its kind
/// does not support.
void check_model_kind(const ModelConfig& model);

/// The part of check_model_kind() about attention masks, which needs no derived key.
void check_masks(const ModelConfig& model);

/// Does as check_model_kind() for all keys of a run that depend on its model's kind. Refuses a key
/// without effect, because it would look effective.
void check_kind(const RunConfig& config);

/// Throws, naming the key and the reason why it has no effect, unless it has its default value.
void require_default(bool is_default, const char* key, std::string_view reason);

}  // namespace tessera
