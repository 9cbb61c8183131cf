#pragma once

#include <string_view>

#include "launch/support/text/json.h"
#include "models/model_config.h"

namespace tessera {

/// What a checkpoint says of its model: all keys that decide which function the weights are, and
/// none that only matter in training (dropout, initial weights). mlp_size and norm are resolved.
Json architecture_json(const ModelConfig& config);

/// The model of such a JSON, without dropout; `owner` stands before a key in messages. Throws,
/// naming the key, if one is missing (other than one that models did not have from the start), is
/// unknown, or has a value that no model has.
ModelConfig model_from_json(const Json& json, std::string_view owner = "the checkpoint's model");

}  // namespace tessera
