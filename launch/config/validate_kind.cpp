#include "launch/config/validate_kind.h"

#include "core/error.h"
#include "launch/config/label_names.h"

namespace tessera {
namespace {

/// `is_default`: whether the key has been left alone.
void require_default(bool is_default, const char* key, const char* reason) {
  require(is_default, "{} is set, but {}: it would have no effect, so leave it out", key, reason);
}

void check_gpt(const RunConfig& config) {
  constexpr const char* kReason = "model.kind is gpt, which has no such thing";
  const ModelConfig& model = config.model;
  require(model.head == Head::pretraining,
          "model.head is classification, but model.kind is gpt: choose bert as the kind, or "
          "pretraining as the head");
  require_default(model.token_types == 0, "model.token_types", kReason);
  require_default(!model.next_sentence, "model.next_sentence", kReason);
  require_default(config.mlm == MaskingOptions{}, "a key of mlm", kReason);
  require_default(config.data.short_samples == ShortSamples::pad, "data.short_samples", kReason);
}

void check_mlm(const RunConfig& config) {
  const MaskingOptions& mlm = config.mlm;
  require(mlm.probability > 0.0,
          "mlm.probability is 0, but BERT learns from nothing else than the chosen tokens: choose "
          "one above 0, as 0.15");
  require(mlm.mask_fraction + mlm.random_fraction <= 1.0,
          "mlm.mask_fraction and mlm.random_fraction are {} and {}: they are parts of the chosen "
          "tokens, so choose two that are at most 1 together",
          mlm.mask_fraction, mlm.random_fraction);
  require_default(mlm.unit == MaskUnit::span || mlm.max_span == MaskingOptions{}.max_span,
                  "mlm.max_span", "mlm.unit is not span");
}

void check_bert(const RunConfig& config) {
  constexpr const char* kReason =
      "model.kind is bert, whose samples are documents or parts of them";
  require_default(!config.data.separate_documents, "data.separate_documents", kReason);
  require_default(config.data.loss_across_documents, "data.loss_across_documents", kReason);
  const ModelConfig& model = config.model;
  require(!model.next_sentence || model.token_types >= 2,
          "model.next_sentence is true, but model.token_types is {}: a pair has 2 types of tokens, "
          "so choose 2",
          model.token_types);
  require(
      !model.next_sentence || config.data.short_samples == ShortSamples::pad,
      "data.short_samples is pack, but model.next_sentence is true: pairs of sentences have "
      "another length in each epoch and are not packed, so choose pad; padding is not computed");
  require(model.seq_length >= 8,
          "model.seq_length is {}, but a sample of BERT has up to three special tokens and text "
          "between them: choose at least 8",
          model.seq_length);
}

void check_classification(const RunConfig& config) {
  const ModelConfig& model = config.model;
  require(model.num_labels >= 2,
          "model.num_labels is {}, but model.head is classification: choose the number of classes, "
          "at least 2",
          model.num_labels);
  if (config.data.labels) {
    const size_t names = label_names(*config.data.labels).size();
    require(static_cast<int64_t>(names) == model.num_labels,
            "data.labels has {} names, \"{}\", but model.num_labels is {}: name each label once",
            names, *config.data.labels, model.num_labels);
  }
  require_default(!model.next_sentence, "model.next_sentence", "model.head is classification");
  require_default(config.mlm == MaskingOptions{}, "a key of mlm", "model.head is classification");
  require_default(config.data.short_samples == ShortSamples::pad, "data.short_samples",
                  "model.head is classification");
}

void check_no_classification(const RunConfig& config) {
  constexpr const char* kReason = "model.head is pretraining";
  require_default(config.model.num_labels == 0, "model.num_labels", kReason);
  require_default(!config.data.labels, "data.labels", kReason);
  require_default(!config.data.truncate, "data.truncate", kReason);
}

}  // namespace

void check_kind(const RunConfig& config) {
  const ModelConfig& model = config.model;
  if (model.is_bert()) {
    check_bert(config);
    if (model.head == Head::pretraining) check_mlm(config);
  } else {
    check_gpt(config);
  }
  if (model.head == Head::classification) {
    check_classification(config);
  } else {
    check_no_classification(config);
  }
  require(
      model.positions != Positions::rotary || model.head_dim() % 2 == 0,
      "model.positions is rotary, but a head has hidden_size / num_heads = {} columns: they are "
      "rotated in pairs, so choose an even number",
      model.head_dim());
  require_default(
      model.positions == Positions::rotary || model.rotary_base == ModelConfig{}.rotary_base,
      "model.rotary_base", "model.positions is learned");
}

}  // namespace tessera
