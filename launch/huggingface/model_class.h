#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/model_config.h"

namespace tessera {

/// The classes of the Python package `transformers` that Tessera's models can express.
enum class ModelClass : uint8_t {
  gpt2_lm_head,                     ///< GPT2LMHeadModel
  llama_causal_lm,                  ///< LlamaForCausalLM
  mistral_causal_lm,                ///< MistralForCausalLM
  qwen2_causal_lm,                  ///< Qwen2ForCausalLM
  qwen3_causal_lm,                  ///< Qwen3ForCausalLM
  bert_pretraining,                 ///< BertForPreTraining: masked words and next sentences
  bert_masked_lm,                   ///< BertForMaskedLM: masked words alone, without a pooler
  bert_classification,              ///< BertForSequenceClassification
  bert_token_classification,        ///< BertForTokenClassification
  roberta_masked_lm,                ///< RobertaForMaskedLM
  roberta_classification,           ///< RobertaForSequenceClassification
  roberta_token_classification,     ///< RobertaForTokenClassification
  modernbert_masked_lm,             ///< ModernBertForMaskedLM
  modernbert_classification,        ///< ModernBertForSequenceClassification
  modernbert_token_classification,  ///< ModernBertForTokenClassification
  bert_embedding,                   ///< BertModel, without a head
  roberta_embedding,                ///< RobertaModel
  modernbert_embedding,             ///< ModernBertModel
  t5_conditional_generation,        ///< T5ForConditionalGeneration
  vit_classification,               ///< ViTForImageClassification
};

std::string_view to_string(ModelClass model_class);

ModelKind kind_of(ModelClass model_class);

/// The head of a class.
Head head_of(ModelClass model_class);

/// Whether a head classifies texts or words.
inline bool classifies(Head head) {
  return head == Head::classification || head == Head::token_classification;
}

/// "problem_type" in config.json: "regression".
std::string_view problem_type_name(ProblemType type);

/// The problem type with this name; nullopt if there is none.
std::optional<ProblemType> problem_type_of(std::string_view name);

/// "gpt2" or "llama": "model_type" in config.json, which is also the name of the kind.
std::string_view model_type(ModelClass model_class);

/// Parses a name in "architectures". GPT2Model maps to GPT2LMHeadModel, because it has all of its
/// tensors. Throws for any other name, starting with `where` and listing the known ones.
ModelClass model_class_of(std::string_view name, const std::string& where);

/// The class that computes the same function as a model. Throws, naming the key and why, if there
/// is none.
ModelClass model_class_of(const ModelConfig& config);

}  // namespace tessera
