#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/masks/attention_mask.h"
#include "models/model_config.h"

namespace tessera {

/// How a head for documents transforms their pooled hidden state: tanh(dense(x)) as in BERT,
/// norm(gelu(dense(x))) as in ModernBERT, or not at all.
enum class Pooler : uint8_t { tanh, norm, none };

/// An architecture described as data. The layers in models/ read this table and the ModelConfig;
/// only models/ and launch/huggingface know which architecture a model has.
struct Architecture {
  ModelKind kind;
  std::string_view name;          ///< the value of model.kind, "model_type" in Hugging Face
  std::string_view display_name;  ///< for messages
  std::string_view summary;       ///< for the documentation of model.kind: "a decoder that ..."
  Objective pretraining;
  bool head_transform = false;  ///< dense, GELU and norm before the logits; the logits have a bias
  bool head_bias = false;       ///< the last layer of a head has a bias, whatever model.bias is
  Pooler pooler = Pooler::tanh;
  bool first_norm = true;  ///< the first block of a pre-norm model normalizes before attention
  bool scaled_residual_init = false;  ///< scale initial output projections by 1/sqrt(2 L)
  bool token_types = false;           ///< allow model.token_types
  bool next_sentence = false;         ///< allow model.next_sentence
  bool classification = false;        ///< allow a model.head other than pretraining
  bool special_tokens = false;        ///< each text has a start and an end token
  bool cross_attention = false;       ///< an encoder of a source text beside the decoder
  bool images = false;                ///< tokens are patches of images
  bool inner_dropout = false;  ///< dropout also within the MLP and after the last norm of a stack
  int64_t min_seq_length = 1;  ///< room for the special tokens and some text
};

/// All architectures, in the order used by the documentation.
std::span<const Architecture> architectures();

const Architecture& architecture_of(ModelKind kind);

/// Sets the kind and the members whose default depends on it to the defaults of the kind's
/// configuration class in `transformers`, but RoBERTa's norm_eps to that of the published models.
/// Leaves sizes and dropout as they are.
void apply_preset(ModelConfig& config, ModelKind kind);

/// The defaults of a kind.
ModelConfig preset(ModelKind kind);

/// The value of model.kind: "gpt2".
inline std::string_view to_string(ModelKind kind) { return architecture_of(kind).name; }

/// Facts about a model that the rest of the program needs. Because the model answers as data, the
/// trainer, evaluation, tools and memory plan work for any architecture.
struct ModelTraits {
  std::string_view name;     ///< for messages: "GPT"
  Objective objective;       ///< the objective of its head
  bool causal;               ///< a token attends only to itself and earlier tokens
  int64_t attention_window;  ///< of layers with a window: tokens with |t − s| < it are visible
  int64_t attention_dilation, global_tokens, attention_prefix;  ///< as in ModelConfig
  std::shared_ptr<const AttentionPlane> attention_plane;        ///< the same
  bool sentence_pairs;       ///< samples are labeled sentence pairs
  bool document_labels;      ///< documents have labels: next sentence, class, labels or a number
  bool token_labels;         ///< targets are labels of words, on their first tokens
  ProblemType problem_type;  ///< of a head that classifies documents
  /// The numbers that a classification head predicts for a document (TokenBatch::label_values); 0
  /// if it predicts a class.
  int64_t label_width;
  /// The texts of a sample, each a document, whose embeddings the loss compares: 2 or, with hard
  /// negatives, 3. 0 for other objectives.
  int64_t texts_of_sample;
  int64_t row_length;     ///< the most tokens of a row of a batch
  int64_t patch_width;    ///< numbers of a token that is a patch of an image; 0: tokens are ids
  int64_t source_length;  ///< the most source tokens of a row; 0: the model has no encoder beside
                          ///< its decoder
  bool special_tokens;    ///< see Architecture::special_tokens
  bool head_transform;    ///< the head of tokens has a dense layer before its last one

  /// Returns whether the model's own mask hides the key at position s of a document from the query
  /// at t, in layers with a window (ModelConfig::is_local) or in all others, and in this head,
  /// which matters only if the attention plane has several.
  bool hides(int64_t t, int64_t s, bool is_local, int64_t head) const;

  /// Whether no head sees the key.
  bool hides(int64_t t, int64_t s, bool is_local) const;

  /// The mask kinds that attention must implement to train this model: the model's own mask, per
  /// document, in a batch without padding.
  MaskKinds mask_kinds() const;
};

ModelTraits traits_of(const ModelConfig& config);

}  // namespace tessera
