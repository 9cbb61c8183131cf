#include "launch/huggingface/model_class.h"

#include <array>

#include "core/error.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

struct NamedClass {
  std::string_view name;
  ModelClass model_class;
};

/// The first name of a class is its canonical one.
constexpr std::array<NamedClass, 5> kClasses = {{
    {"GPT2LMHeadModel", ModelClass::gpt2_lm_head},
    {"GPT2Model", ModelClass::gpt2_lm_head},
    {"BertForPreTraining", ModelClass::bert_pretraining},
    {"BertForMaskedLM", ModelClass::bert_masked_lm},
    {"BertForSequenceClassification", ModelClass::bert_classification},
}};

/// `key_and_value`: "model.norm is pre".
void require_expressible(bool expressible, std::string_view key_and_value, std::string_view why) {
  require(expressible,
          "the model cannot be exported: {}, but {}; no class of transformers that Tessera knows "
          "computes this",
          key_and_value, why);
}

}  // namespace

std::string_view to_string(ModelClass model_class) {
  for (const NamedClass& named : kClasses) {
    if (named.model_class == model_class) return named.name;
  }
  return "?";
}

std::string_view model_type(ModelClass model_class) {
  switch (model_class) {
    case ModelClass::gpt2_lm_head:
      return "gpt2";
    case ModelClass::bert_pretraining:
    case ModelClass::bert_masked_lm:
    case ModelClass::bert_classification:
      return "bert";
  }
  return "?";
}

ModelClass model_class_of(std::string_view name, const std::string& where) {
  std::string known;
  for (const NamedClass& named : kClasses) {
    if (named.name == name) return named.model_class;
    if (to_string(named.model_class) != named.name) continue;
    known += (known.empty() ? "" : ", ") + std::string(named.name);
  }
  fail("{}: the architecture {} cannot be imported; supported are {}", where, quote(name), known);
}

ModelClass model_class_of(const ModelConfig& config) {
  require_expressible(config.positions == Positions::learned, "model.positions is rotary",
                      "GPT-2 and BERT learn an embedding of each position");
  require_expressible(config.attention_window == 0 || config.attention_window >= config.seq_length,
                      fmt::format("model.attention_window is {}", config.attention_window),
                      "GPT-2 and BERT attend to all of the text");
  switch (config.kind) {  // no default: the compiler names an architecture without a mapping
    case ModelKind::gpt:
      require_expressible(config.pre_norm(), "model.norm is post",
                          "GPT-2 normalizes before each branch");
      return ModelClass::gpt2_lm_head;
    case ModelKind::bert:
      require_expressible(!config.pre_norm(), "model.norm is pre",
                          "BERT normalizes after each residual sum");
      if (config.head == Head::classification) return ModelClass::bert_classification;
      return config.next_sentence ? ModelClass::bert_pretraining : ModelClass::bert_masked_lm;
  }
  fail("{} is not an architecture", static_cast<int>(config.kind));
}

}  // namespace tessera
