#include "launch/checkpoint/model_json.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.h"
#include "launch/config/schema.h"
#include "launch/config/schema_list.h"
#include "launch/config/validate_kind.h"
#include "models/attention_plane.h"

namespace tessera {
namespace {

bool only_for_training(std::string_view key) {
  return key == "dropout" || key == "attention_dropout" || key == "init_stddev";
}

/// Visitor for schema.h that writes every architectural key.
struct JsonWriter {
  Json json = Json::object();

  template <typename T, typename Rule>
  void operator()(const Key& key, const T& member, const Rule& rule, std::string_view) {
    if (only_for_training(key.name)) return;
    if constexpr (std::is_same_v<T, std::optional<std::string>>) {
      json[std::string(key.name)] = member ? Json(*member) : Json(nullptr);
    } else if constexpr (std::is_enum_v<T>) {
      json[std::string(key.name)] = rule.write(member);
    } else {
      json[std::string(key.name)] = member;
    }
  }
};

ConfigValue config_value(const Json& json) {
  ConfigValue value;
  if (json.is_null()) return value;
  if (json.is_array()) {
    value.kind = ConfigValue::Kind::list;
    for (const Json& item : json) value.items.push_back(config_value(item));
    return value;
  }
  value.kind = ConfigValue::Kind::scalar;
  value.quoted = json.is_string();
  value.text = json.is_string() ? json.get<std::string>() : json.dump();
  return value;
}

}  // namespace

Json architecture_json(const ModelConfig& config) {
  ModelConfig resolved = config;
  resolved.mlp_size = config.resolved_mlp_size();
  resolved.num_kv_heads = config.resolved_kv_heads();
  resolved.head_dim = config.resolved_head_dim();
  // A path says nothing about the mask in the file.
  if (config.attention_plane) resolved.attention_mask_file = config.attention_plane->checksum;
  JsonWriter writer;
  describe(std::as_const(resolved), writer);
  return writer.json;
}

bool is_of_heads(std::string_view key) {
  constexpr std::string_view kKeys[] = {"head",
                                        "num_labels",
                                        "problem_type",
                                        "next_sentence",
                                        "classifier_pooling",
                                        "embedding_pooling",
                                        "similarity_scale",
                                        "symmetric_loss",
                                        "hard_negatives"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

ModelConfig model_from_json(const Json& json, std::string_view owner) {
  require(json.is_object(), "{} is not a JSON object", owner);
  RunConfig run;
  std::set<std::string> known;
  for (const KeyInfo& key : model_keys()) {
    if (only_for_training(key.name)) continue;
    known.insert(key.name);
    require(json.contains(key.name), "{} has no '{}'", owner, key.name);
    try {
      key.access->read(config_value(json.at(key.name)), run);
    } catch (const Error& error) {
      fail("{}.{} {}", owner, key.name, error.what());
    }
  }
  for (const auto& [key, value] : json.items()) {
    require(known.contains(key), "{} has a key '{}', which this version does not know", owner, key);
  }
  ModelConfig config = std::move(run.model);
  config.dropout = 0.0;
  config.attention_dropout = 0.0;
  try {
    check_model_kind(config);
  } catch (const Error& error) {
    fail("{} is invalid: {}", owner, error.what());
  }
  return config;
}

}  // namespace tessera
