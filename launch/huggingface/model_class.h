#pragma once

#include <string>
#include <string_view>

#include "models/model_config.h"

namespace tessera {

/// The classes of the Python package `transformers` whose functions Tessera's models are.
enum class ModelClass : uint8_t {
  gpt2_lm_head,         ///< GPT2LMHeadModel
  bert_pretraining,     ///< BertForPreTraining: masked words and next sentences
  bert_masked_lm,       ///< BertForMaskedLM: masked words alone, without a pooler
  bert_classification,  ///< BertForSequenceClassification
};

std::string_view to_string(ModelClass model_class);

/// "gpt2" or "bert": "model_type" in config.json.
std::string_view model_type(ModelClass model_class);

/// The class of a name in "architectures". GPT2Model counts as GPT2LMHeadModel, whose tensors it
/// has all; BertModel, which has no head, is none. Throws, starting with `where` and naming those
/// that are known, for any other.
ModelClass model_class_of(std::string_view name, const std::string& where);

/// The class that is the function of a model. Throws, naming the key and why, where none is.
ModelClass model_class_of(const ModelConfig& config);

}  // namespace tessera
