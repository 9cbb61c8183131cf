#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/huggingface/model_class.h"
#include "launch/support/text/json.h"

namespace tessera {

/// What a config.json says.
struct ImportedConfig {
  ModelConfig model;
  ModelClass model_class = ModelClass::gpt2_lm_head;
  /// Whether the output head is the embedding of words.
  bool tied = true;
  /// Of a classifier, by their numbers; none where config.json names none of its own, or one that
  /// can not stand in data.labels.
  std::vector<std::string> labels;
  /// What is not kept, and what differs from Hugging Face's model in training alone.
  std::vector<std::string> notes;
};

/// The model of a config.json, which may be hostile; `where` names it in messages. What it does not
/// say is as in `transformers`. `architecture` stands for the one that it names, if given. Throws,
/// naming the key, for an architecture that is not known, an option that would make the model
/// another function than Tessera's, or a value that no model has.
ImportedConfig import_config(const Json& json, const std::string& where,
                             const std::optional<std::string>& architecture);

}  // namespace tessera
