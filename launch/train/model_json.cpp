#include "launch/train/model_json.h"

#include <set>
#include <string_view>

#include "core/error.h"
#include "launch/config/schema.h"

namespace tessera {
namespace {

bool only_for_training(std::string_view key) {
  return key == "dropout" || key == "attention_dropout" || key == "init_stddev";
}

/// schema.h's visitor that writes every architectural key.
struct JsonWriter {
  Json json = Json::object();

  template <typename T, typename Rule>
  void operator()(const Key& key, const T& member, const Rule&, std::string_view) {
    if (!only_for_training(key.name)) json[std::string(key.name)] = member;
  }
};

/// schema.h's visitor that reads every architectural key, and checks it as a file's would be.
struct JsonReader {
  const Json& json;
  std::set<std::string> known = {};

  template <typename T, typename Rule>
  void operator()(const Key& key, T& member, const Rule& rule, std::string_view) {
    if (only_for_training(key.name)) return;
    const std::string name(key.name);
    known.insert(name);
    require(json.contains(name), "the checkpoint's model has no '{}'", name);
    try {
      json.at(name).get_to(member);
    } catch (const Json::exception& error) {
      fail("the checkpoint's model.{} can not be read: {}", name, error.what());
    }
    require(rule.accepts(member), "the checkpoint's model.{} is {}, but must be {}", name,
            rule.write(member), rule.allowed());
  }
};

}  // namespace

Json architecture_json(const ModelConfig& config) {
  ModelConfig resolved = config;
  resolved.mlp_size = config.resolved_mlp_size();
  JsonWriter writer;
  describe(std::as_const(resolved), writer);
  return writer.json;
}

ModelConfig model_from_json(const Json& json) {
  require(json.is_object(), "the checkpoint's model is not a JSON object");
  ModelConfig config;
  JsonReader reader{json};
  describe(config, reader);
  for (const auto& [key, value] : json.items()) {
    require(reader.known.count(key) == 1,
            "the checkpoint's model has a key '{}', which this version does not know", key);
  }
  config.dropout = 0.0;
  config.attention_dropout = 0.0;
  require(config.hidden_size % config.num_heads == 0,
          "the checkpoint's model.hidden_size is {}, which its num_heads {} do not divide",
          config.hidden_size, config.num_heads);
  return config;
}

}  // namespace tessera
