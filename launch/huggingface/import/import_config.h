#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/huggingface/model_class.h"
#include "launch/support/text/json.h"

namespace tessera {

/// The contents of a config.json.
struct ImportedConfig {
  ModelConfig model;
  ModelClass model_class = ModelClass::gpt2_lm_head;
  /// Whether the output head is tied to the word embedding.
  bool tied = true;
  /// Whether it is tied only if the files have no head that differs, as in T5 since transformers 5.
  bool tied_unless_stored = false;
  /// The first input of an encoder–decoder's decoder, and the token that ends a text, unless there
  /// are several.
  std::optional<int64_t> decoder_start = {}, end_token = {};
  /// The id of the padding token, which only tensor_names() of RoBERTa reads.
  int64_t padding_token = 0;
  /// Label names of a classifier, by number; empty if config.json has only default names, or one
  /// that is not valid in data.labels.
  std::vector<std::string> labels;
  /// Features that are lost, and differences from Hugging Face's model only in training.
  std::vector<std::string> notes;
};

/// Parses a config.json, which may be hostile; `where` names it in messages. Missing keys have the
/// defaults of `transformers`. `architecture` overrides the one it names. Throws, naming the key,
/// for an unknown architecture, an option that Tessera's model does not compute, or an invalid
/// value.
ImportedConfig import_config(const Json& json, const std::string& where,
                             const std::optional<std::string>& architecture);

}  // namespace tessera
