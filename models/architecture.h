#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/masks/attention_mask.h"
#include "core/ops/gelu.h"
#include "models/model_config.h"

namespace tessera {

/// What distinguishes one architecture from another, as data. The layers in models/ read this
/// table; nothing outside of models/ and launch/huggingface asks which architecture a model has.
struct Architecture {
  ModelKind kind;
  std::string_view name;          ///< the value of model.kind
  std::string_view display_name;  ///< in messages
  Objective pretraining;
  NormPosition norm;          ///< unless model.norm says otherwise
  Gelu gelu;                  ///< the activation of the MLPs
  bool embedding_norm;        ///< a norm follows the sum of the embeddings
  bool head_transform;        ///< dense, GELU and norm before the logits, which have a bias
  bool scaled_residual_init;  ///< initial output projections are scaled by 1/sqrt(2 L)
  bool token_types;           ///< model.token_types and model.next_sentence may be set
  bool classification;        ///< model.head may be classification
  bool special_tokens;        ///< a text stands between a start and an end token
  int64_t min_seq_length;     ///< special tokens and at least some text
};

/// All architectures, in the order in which documentation lists them.
std::span<const Architecture> architectures();

const Architecture& architecture_of(ModelKind kind);

/// The value of model.kind: "gpt".
inline std::string_view to_string(ModelKind kind) { return architecture_of(kind).name; }

/// What the rest of the program needs to know of a model. The model answers as data, so that the
/// trainer, evaluation, the tools and the memory plan work for any architecture.
struct ModelTraits {
  std::string_view name;     ///< for messages: "GPT"
  Objective objective;       ///< what it learns now: its head's
  bool causal;               ///< a token sees only itself and those before it
  int64_t attention_window;  ///< |t − s| < attention_window is seen; 0 is all
  bool sentence_pairs;       ///< samples are pairs of sentences, with a label each
  bool document_labels;      ///< documents have labels: next sentence, or a class
  bool special_tokens;       ///< as Architecture::special_tokens
  bool head_transform;       ///< as Architecture::head_transform

  /// Whether the model's own mask hides the key at position s of a document from the query at t.
  bool hides(int64_t t, int64_t s) const;

  /// The kinds of masks that attention has to implement for this model in training: its own, over
  /// documents in a batch without padding.
  MaskKinds mask_kinds() const;
};

ModelTraits traits_of(const ModelConfig& config);

}  // namespace tessera
