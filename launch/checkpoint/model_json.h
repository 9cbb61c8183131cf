#pragma once

#include <string_view>

#include "launch/support/text/json.h"
#include "models/model_config.h"

namespace tessera {

/// The model's description in a checkpoint: all keys that define the function the weights compute,
/// and none that only matter in training (dropout, initial weights). mlp_size and norm are
/// resolved, and attention_mask_file is the checksum of the mask.
Json architecture_json(const ModelConfig& config);

/// Parses such a JSON into a model without dropout, whose attention_mask_file is the checksum
/// (model_of() also reads the mask); `owner` precedes a key in messages. Throws,
/// naming the key, if one is missing (unless it was added later), unknown, or has an invalid value.
ModelConfig model_from_json(const Json& json, std::string_view owner = "the checkpoint's model");

/// Whether a key of architecture_json() configures the heads, which may differ from those of the
/// model that a run starts with (checkpoint.from). A model of images is an exception: there,
/// classifier_pooling also decides whether the body has a class token.
bool is_of_heads(std::string_view key);

}  // namespace tessera
