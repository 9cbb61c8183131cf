#include "launch/config/validate_kind.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/divisors.h"
#include "core/error.h"
#include "launch/config/label_names.h"
#include "launch/config/model_kinds.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "models/architecture.h"

namespace tessera {

void require_default(bool is_default, const char* key, std::string_view reason) {
  require(is_default, "{} is set, but {}: it would have no effect, so leave it out", key, reason);
}

namespace {

std::string_view name_of(Head head) {
  switch (head) {
    case Head::pretraining:
      return "pretraining";
    case Head::classification:
      return "classification";
    case Head::token_classification:
      return "token_classification";
    case Head::embedding:
      return "embedding";
  }
  return "?";
}

std::string no_such_thing(const Architecture& architecture) {
  return fmt::format("model.kind is {}, which does not support it", architecture.name);
}

void check_channels(const std::vector<double>& values, const char* key, int64_t channels) {
  require(values.size() == 1 || std::ssize(values) == channels,
          "{} has {} numbers, but model.num_channels is {}: give one for each channel, or one for "
          "all",
          key, values.size(), channels);
}

void check_images(const ModelConfig& model, std::string_view reason) {
  const ModelConfig defaults;
  if (!architecture_of(model.kind).images) {
    require_default(model.patch_size == 0, "model.patch_size", reason);
    require_default(model.image_size == 0, "model.image_size", reason);
    require_default(model.num_channels == 0, "model.num_channels", reason);
    require_default(model.image_mean == defaults.image_mean, "model.image_mean", reason);
    require_default(model.image_std == defaults.image_std, "model.image_std", reason);
    return;
  }
  require(model.head == Head::classification,
          "model.head is {}, but model.kind is {}, which classifies images: choose classification",
          name_of(model.head), architecture_of(model.kind).name);
  require(model.patch_size > 0 && model.image_size > 0 && model.num_channels > 0,
          "model.image_size, model.patch_size and model.num_channels are {}, {} and {}: choose 1 "
          "or more",
          model.image_size, model.patch_size, model.num_channels);
  require(model.image_size % model.patch_size == 0,
          "model.image_size is {}, but model.patch_size is {}: an image has whole patches, so "
          "choose {} as patch_size",
          model.image_size, model.patch_size, divisors(model.image_size));
  require(model.vocab_size <= 1,
          "model.vocab_size is {}, but patches have no ids: leave the key out", model.vocab_size);
  require(model.seq_length == model.image_tokens(),
          "model.seq_length is {}, but an image has {} tokens ({} patches{}): leave the key out",
          model.seq_length, model.image_tokens(), model.num_patches(),
          model.has_class_token() ? " and a class token" : "");
  check_channels(model.image_mean, "model.image_mean", model.num_channels);
  check_channels(model.image_std, "model.image_std", model.num_channels);
}

void check_adapters(const ModelConfig& model) {
  if (model.lora_rank > 0) return;
  const ModelConfig defaults;
  constexpr const char* kNone = "model.lora_rank is 0";
  require_default(model.lora_alpha == defaults.lora_alpha, "model.lora_alpha", kNone);
  require_default(model.lora_dropout == defaults.lora_dropout, "model.lora_dropout", kNone);
  require_default(model.lora_targets == defaults.lora_targets, "model.lora_targets", kNone);
}

void check_architecture(const ModelConfig& model) {
  check_adapters(model);
  const Architecture& architecture = architecture_of(model.kind);
  require(
      architecture.classification || model.head == Head::pretraining,
      "model.head is {}, but model.kind is {}: choose {} as the kind, or pretraining as the head",
      name_of(model.head), architecture.name, kinds_with(&Architecture::classification));
  const std::string reason = no_such_thing(architecture);
  require_default(architecture.token_types || model.token_types == 0, "model.token_types", reason);
  require_default(architecture.next_sentence || !model.next_sentence, "model.next_sentence",
                  reason);
  require(!model.next_sentence || model.token_types >= 2,
          "model.next_sentence is true, but model.token_types is {}: a pair needs 2 token types, "
          "so choose 2",
          model.token_types);
  check_images(model, reason);
  const bool has_source = architecture.cross_attention;
  require_default(has_source || model.num_decoder_layers == 0, "model.num_decoder_layers", reason);
  require_default(has_source || model.source_length == 0, "model.source_length", reason);
  require_default(!has_source || !model.qk_norm, "model.qk_norm", reason);
  require(model.seq_length >= architecture.min_seq_length,
          "model.seq_length is {}, but a sample of {} has up to three special tokens and text "
          "between them: choose at least {}",
          model.seq_length, architecture.display_name, architecture.min_seq_length);
}

void check_causal_run(const RunConfig& config) {
  const std::string reason = no_such_thing(architecture_of(config.model.kind));
  require_default(config.mlm == MaskingOptions{}, "a key of mlm", reason);
  require_default(config.data.short_samples == ShortSamples::pad, "data.short_samples", reason);
  if (config.data.packing == Packing::concatenate) return;
  constexpr const char* kPacked =
      "data.packing is documents, which do not attend to one another and are not predicted from "
      "one another";
  require_default(!config.data.separate_documents, "data.separate_documents", kPacked);
  require_default(config.data.loss_across_documents, "data.loss_across_documents", kPacked);
}

void check_document_run(const RunConfig& config) {
  const std::string reason =
      fmt::format("model.kind is {}, whose samples are documents or parts of them",
                  architecture_of(config.model.kind).name);
  require_default(config.data.packing == Packing::concatenate, "data.packing", reason);
  require_default(!config.data.separate_documents, "data.separate_documents", reason);
  require_default(config.data.loss_across_documents, "data.loss_across_documents", reason);
  require_default(!config.data.loss_on_prompts, "data.loss_on_prompts", reason);
  require_default(config.data.chat_template == ChatFormat::automatic, "data.chat_template", reason);
  require(
      !config.model.next_sentence || config.data.short_samples == ShortSamples::pad,
      "data.short_samples is pack, but model.next_sentence is true: the length of a pair differs "
      "in every epoch, so pairs are not packed, so choose pad; padding is not computed");
}

/// Keys that only datasets or only files of texts use are checked when the data is opened.
void check_seq2seq_run(const RunConfig& config) {
  const std::string reason = no_such_thing(architecture_of(config.model.kind));
  require_default(config.mlm == MaskingOptions{}, "a key of mlm", reason);
  require_default(config.data.short_samples == ShortSamples::pad, "data.short_samples", reason);
}

void check_mlm(const MaskingOptions& mlm) {
  require(mlm.probability > 0.0,
          "mlm.probability is 0, but the model learns only from the chosen tokens: choose a value "
          "above 0, such as 0.15");
  require(mlm.mask_fraction + mlm.random_fraction <= 1.0,
          "mlm.mask_fraction and mlm.random_fraction are {} and {}: both are fractions of the "
          "chosen tokens, so their sum must be at most 1",
          mlm.mask_fraction, mlm.random_fraction);
  const MaskingOptions defaults;
  const bool replaces = mlm.hide == MaskHide::token;
  constexpr const char* kHidden =
      "mlm.hide is attention, which replaces all chosen tokens by [MASK]";
  require_default(replaces || mlm.mask_fraction == defaults.mask_fraction, "mlm.mask_fraction",
                  kHidden);
  require_default(replaces || mlm.random_fraction == defaults.random_fraction,
                  "mlm.random_fraction", kHidden);
  require_default(mlm.unit == MaskUnit::span || mlm.max_span == MaskingOptions{}.max_span,
                  "mlm.max_span", "mlm.unit is not span");
}

void check_label_names(const std::string& labels, int64_t num_labels) {
  const std::vector<std::string> names = label_names(labels);
  require(std::ssize(names) == num_labels,
          "data.labels has {} names, \"{}\", but model.num_labels is {}: name each label once",
          names.size(), labels, num_labels);
  if (const auto problem = label_problem(names)) {
    fail("data.labels is \"{}\", but {}", labels, *problem);
  }
}

void check_classification_run(const RunConfig& config) {
  const std::string reason = fmt::format("model.head is {}", name_of(config.model.head));
  require(config.model.problem_type != ProblemType::regression || !config.data.labels,
          "data.labels is \"{}\", but model.problem_type is regression, whose labels are numbers: "
          "leave "
          "labels out, or choose another problem_type",
          config.data.labels.value_or(""));
  const bool labels = config.data.labels && config.model.head != Head::embedding;
  if (labels) check_label_names(*config.data.labels, config.model.num_labels);
  require_default(config.mlm == MaskingOptions{}, "a key of mlm", reason);
  require_default(config.data.short_samples == ShortSamples::pad, "data.short_samples", reason);
  if (config.model.head != Head::embedding) return;
  require_default(!config.data.labels, "data.labels", reason);
  require(config.batch.global >= 2,
          "batch.global is {}, but model.head is embedding, whose loss compares the texts of a "
          "batch: choose 2 or more",
          config.batch.global);
}

void check_other_run(const RunConfig& config) {
  constexpr const char* kReason = "model.head is pretraining";
  require_default(!config.data.labels, "data.labels", kReason);
  const bool reads_datasets_only = traits_of(config.model).objective == Objective::masked_lm;
  require_default(!config.data.truncate || !reads_datasets_only, "data.truncate", kReason);
}

void check_embeddings(const ModelConfig& model) {
  require(
      model.tie_embeddings || model.head == Head::pretraining,
      "model.tie_embeddings is false, but model.head is {}: there is no matrix to tie, so leave "
      "it out",
      name_of(model.head));
  require(model.tie_embeddings || !traits_of(model).head_transform,
          "model.tie_embeddings is false, but model.kind is {}: its output head is the token "
          "embedding, so choose true",
          architecture_of(model.kind).name);
  const Architecture& architecture = architecture_of(model.kind);
  const bool has_logits = model.head == Head::pretraining && !architecture.head_transform;
  require_default(has_logits || !model.scaled_logits, "model.scaled_logits",
                  no_such_thing(architecture));
}

void check_mup(const ModelConfig& model) {
  require_default(model.has_mup() || model.mup_base_head_dim == 0, "model.mup_base_head_dim",
                  "model.mup_base_hidden_size is 0");
  if (!model.has_mup()) return;
  require(model.mup_base_head_dim > 0,
          "model.mup_base_hidden_size is {}, but model.mup_base_head_dim is 0: give the head size "
          "of the base model, which is {}, as here, if wider models have more heads",
          model.mup_base_hidden_size, model.resolved_head_dim());
  require(model.lora_rank == 0,
          "model.lora_rank is {}, but model.mup_base_hidden_size is {}, and µP has no rule for "
          "adapters: `tessera export` and `import` the model first, which makes it one in standard "
          "parametrization, or train all of it",
          model.lora_rank, model.mup_base_hidden_size);
}

/// Keys that only one head uses.
void check_pooling(const ModelConfig& model) {
  const std::string reason = fmt::format("model.head is {}", name_of(model.head));
  const ModelConfig defaults;
  const auto require_unset = [&](bool allowed, bool is_default, const char* key) {
    require_default(allowed || is_default, key, reason);
  };
  require_unset(model.head == Head::classification,
                model.classifier_pooling == defaults.classifier_pooling,
                "model.classifier_pooling");
  const bool embeds = model.head == Head::embedding;
  require_unset(embeds, model.embedding_pooling == defaults.embedding_pooling,
                "model.embedding_pooling");
  require_unset(embeds, model.similarity_scale == defaults.similarity_scale,
                "model.similarity_scale");
  require_unset(embeds, !model.symmetric_loss, "model.symmetric_loss");
  require_unset(embeds, !model.hard_negatives, "model.hard_negatives");
}

void check_head(const ModelConfig& model) {
  check_pooling(model);
  const bool words = model.head == Head::token_classification;
  if (model.head == Head::classification || words) {
    const std::string reason = fmt::format("model.head is {}", name_of(model.head));
    require_default(!words || model.problem_type == ProblemType::single_label_classification,
                    "model.problem_type", reason);
    require(!words || model.vocab_size == 0 || model.num_labels <= model.vocab_size,
            "model.num_labels is {}, but model.vocab_size is {}: words have at most as many labels "
            "as there are tokens",
            model.num_labels, model.vocab_size);
    const bool one = model.problem_type == ProblemType::regression;
    require(!one || model.num_labels == 1,
            "model.num_labels is {}, but model.problem_type is regression, which predicts one "
            "number: choose 1, or leave the key out",
            model.num_labels);
    require(
        one || model.num_labels >= 2,
        "model.num_labels is {}, but model.head is {}: choose the number of classes, at least 2",
        model.num_labels, name_of(model.head));
    require_default(!model.next_sentence, "model.next_sentence", reason);
  } else {
    const std::string reason = fmt::format("model.head is {}", name_of(model.head));
    require_default(model.num_labels == 0, "model.num_labels", reason);
    require_default(model.problem_type == ProblemType::single_label_classification,
                    "model.problem_type", reason);
    require_default(model.head == Head::pretraining || !model.next_sentence, "model.next_sentence",
                    reason);
  }
}

void check_heads(const ModelConfig& model) {
  const int64_t groups = model.resolved_kv_heads();
  require(
      model.num_heads % groups == 0,
      "model.num_kv_heads is {}, but model.num_heads is {}: each key-value head serves the same "
      "number of heads, so choose {} as num_kv_heads",
      groups, model.num_heads, divisors(model.num_heads));
  require(
      model.head_dim > 0 || model.hidden_size % model.num_heads == 0,
      "model.hidden_size is {}, but model.num_heads is {}: each head has hidden_size / num_heads "
      "columns, so choose a multiple of {} ({}) as hidden_size, a divisor of {} {} as "
      "num_heads, or give model.head_dim",
      model.hidden_size, model.num_heads, model.num_heads,
      nearest_multiples(model.hidden_size, model.num_heads), model.hidden_size,
      divisors(model.hidden_size));
}

/// Keys that only some values of model.rotary_scaling use.
void check_rotary_scaling(const RotaryFrequencies& rotary) {
  using enum RotaryScaling;
  constexpr const char* kNone = "model.rotary_scaling is none";
  const RotaryScaling scaling = rotary.scaling;
  const RotaryFrequencies defaults;
  require_default(scaling != none || rotary.factor == defaults.factor, "model.rotary_factor",
                  kNone);
  require(scaling == none || rotary.factor > 1.0,
          "model.rotary_scaling is set, but model.rotary_factor is {}, which stretches nothing: "
          "choose a number above 1, or none as rotary_scaling",
          rotary.factor);
  const bool has_length = scaling == llama3 || scaling == yarn;
  require_default(has_length || rotary.original_length == 0, "model.rotary_original_length",
                  "model.rotary_scaling is neither llama3 nor yarn");
  require(!has_length || rotary.original_length > 0,
          "model.rotary_original_length is 0, but model.rotary_scaling is {}: give the sequence "
          "length that the model was trained with first",
          scaling == llama3 ? "llama3" : "yarn");
  constexpr const char* kLlama3 = "model.rotary_scaling is not llama3";
  require_default(scaling == llama3 || rotary.low_freq_factor == defaults.low_freq_factor,
                  "model.rotary_low_freq_factor", kLlama3);
  require_default(scaling == llama3 || rotary.high_freq_factor == defaults.high_freq_factor,
                  "model.rotary_high_freq_factor", kLlama3);
  require(rotary.low_freq_factor < rotary.high_freq_factor,
          "model.rotary_low_freq_factor is {}, but model.rotary_high_freq_factor is {}: choose a "
          "larger high_freq_factor",
          rotary.low_freq_factor, rotary.high_freq_factor);
  constexpr const char* kYarn = "model.rotary_scaling is not yarn";
  require_default(scaling == yarn || rotary.beta_fast == defaults.beta_fast,
                  "model.rotary_beta_fast", kYarn);
  require_default(scaling == yarn || rotary.beta_slow == defaults.beta_slow,
                  "model.rotary_beta_slow", kYarn);
  require_default(scaling == yarn || rotary.attention_factor == 0.0,
                  "model.rotary_attention_factor", kYarn);
  require(rotary.beta_slow < rotary.beta_fast,
          "model.rotary_beta_slow is {}, but model.rotary_beta_fast is {}: choose a larger "
          "beta_fast",
          rotary.beta_slow, rotary.beta_fast);
}

/// Defaults that depend on the kind stay without effect silently.
void check_windows(const ModelConfig& model) {
  const ModelConfig defaults = preset(model.kind);
  require_default(model.attention_window > 0 || model.window_pattern == defaults.window_pattern,
                  "model.window_pattern", "model.attention_window is 0");
  require(model.attention_window == 0 || model.window_pattern.find('L') != std::string::npos,
          "model.attention_window is {}, but model.window_pattern is {}, in which no layer has a "
          "window: put an L into the pattern, or choose 0 as attention_window",
          model.attention_window, model.window_pattern);
  const bool rotary = model.positions == Positions::rotary;
  require_default((rotary && model.attention_window > 0) ||
                      model.local_rotary_base == defaults.local_rotary_base,
                  "model.local_rotary_base",
                  rotary ? "model.attention_window is 0" : "model.positions is not rotary");
  require(model.local_rotary_base == 0.0 || model.local_rotary_base >= 1.0,
          "model.local_rotary_base is {}: choose a base of 1 or more, or 0 for that of all layers",
          model.local_rotary_base);
}

/// Checks keys that let a token see more than the window or causality, or that widen a window.
void check_mask_patterns(const ModelConfig& model) {
  constexpr const char* kNoWindow = "model.attention_window is 0";
  require_default(model.attention_window > 0 || model.attention_dilation == 1,
                  "model.attention_dilation", kNoWindow);
  require_default(model.attention_window > 0 || model.global_tokens == 0, "model.global_tokens",
                  kNoWindow);
  const int64_t longest = std::max(model.seq_length, traits_of(model).source_length);
  require(
      model.attention_dilation == 1 ||
          (model.attention_window > 1 && model.attention_dilation < longest),
      "model.attention_dilation is {}, but model.attention_window is {} and a text has up to {} "
      "tokens: a token would see no other one in the window, so choose an attention_window of "
      "at least 2 and a dilation below {}",
      model.attention_dilation, model.attention_window, longest, longest);
  require(model.global_tokens < longest,
          "model.global_tokens is {}, but a text has up to {} tokens, so all of them would be "
          "global: choose fewer, or 0 as attention_window",
          model.global_tokens, longest);
  const int64_t prefix = model.attention_prefix;
  if (prefix == 0) return;
  const ModelTraits traits = traits_of(model);
  require(traits.objective == Objective::causal_lm,
          "model.attention_prefix is {}, but model.kind is {}, {}: leave it out", prefix,
          architecture_of(model.kind).name,
          traits.causal ? "whose encoder reads the prefix" : "whose tokens see later ones anyway");
  require(prefix >= 2,
          "model.attention_prefix is 1, but all tokens see the first one anyway: choose 2 or more, "
          "or leave it out");
  require(prefix < model.seq_length,
          "model.attention_prefix is {}, but model.seq_length is {}: the model learns from the "
          "tokens after the prefix, so choose less than {}",
          prefix, model.seq_length, model.seq_length);
}

void check_relative(const ModelConfig& model) {
  const bool relative = model.positions == Positions::relative;
  const ModelConfig defaults;
  constexpr const char* kNotRelative = "model.positions is not relative";
  require_default(relative || model.relative_buckets == defaults.relative_buckets,
                  "model.relative_buckets", kNotRelative);
  require_default(relative || model.relative_max_distance == defaults.relative_max_distance,
                  "model.relative_max_distance", kNotRelative);
  if (!relative) return;
  const ModelTraits traits = traits_of(model);
  const bool has_encoder = !traits.causal || traits.source_length > 0;
  require(!has_encoder || (model.relative_buckets % 2 == 0 && model.relative_buckets >= 4),
          "model.relative_buckets is {}, but model.kind is {}: in its encoder, earlier and later "
          "tokens "
          "have half of the buckets each, so choose an even number from 4 on",
          model.relative_buckets, architecture_of(model.kind).name);
  const int64_t exact = (traits.causal ? model.relative_buckets : model.relative_buckets / 2) / 2;
  require(model.relative_max_distance > exact,
          "model.relative_max_distance is {}, but model.relative_buckets is {}: distances below {} "
          "have a bucket each, so choose a max_distance above {}, or fewer buckets",
          model.relative_max_distance, model.relative_buckets, exact, exact);
}

void check_positions(const ModelConfig& model) {
  const bool rotary = model.positions == Positions::rotary;
  require(!rotary || model.resolved_head_dim() % 2 == 0,
          "model.positions is rotary, but a head has {} columns: they are "
          "rotated in pairs, so choose an even number",
          model.resolved_head_dim());
  constexpr const char* kNotRotary = "model.positions is not rotary";
  require_default(rotary || model.rotary.base == preset(model.kind).rotary.base,
                  "model.rotary_base", kNotRotary);
  require_default(rotary || model.rotary.scaling == RotaryScaling::none, "model.rotary_scaling",
                  kNotRotary);
  check_rotary_scaling(model.rotary);
  check_relative(model);
}

}  // namespace

void check_masks(const ModelConfig& model) {
  check_windows(model);
  check_mask_patterns(model);
  require(!model.attention_mask_file || !architecture_of(model.kind).cross_attention,
          "model.attention_mask_file is {}, but model.kind is {}, whose sources and targets have "
          "positions of their own: choose a model with one stack, or leave the key out",
          model.attention_mask_file.value_or(""), architecture_of(model.kind).name);
}

void check_model_kind(const ModelConfig& model) {
  check_architecture(model);
  check_head(model);
  check_heads(model);
  check_positions(model);
  check_masks(model);
  check_embeddings(model);
  check_mup(model);
}

void check_kind(const RunConfig& config) {
  check_model_kind(config.model);
  const Objective objective = traits_of(config.model).objective;
  objective == Objective::causal_lm ? check_causal_run(config) : check_document_run(config);
  if (objective == Objective::masked_lm) check_mlm(config.mlm);
  if (objective == Objective::seq2seq) check_seq2seq_run(config);
  require_default(
      objective == Objective::seq2seq || config.span_corruption == SpanCorruptionOptions{},
      "a key of span_corruption", no_such_thing(architecture_of(config.model.kind)));
  require_default(config.model.has_images() || config.augmentation == AugmentationOptions{},
                  "a key of augmentation", no_such_thing(architecture_of(config.model.kind)));
  const std::string& tokenizer = config.data.tokenizer;
  require(
      !config.model.has_images() || tokenizer.empty() || tokenizer == kNoTokenizer,
      "data.tokenizer is {}, but model.kind is {}, whose images have no text: leave the key out",
      tokenizer, architecture_of(config.model.kind).name);
  const bool writes_text = objective == Objective::causal_lm || objective == Objective::seq2seq;
  require(writes_text || config.eval.prompts.empty(),
          "eval.prompts has texts to continue, but model.kind is {} and model.head is {}, and such "
          "a model writes no text: leave prompts and sample_interval out",
          architecture_of(config.model.kind).name, name_of(config.model.head));
  require(config.augmentation.crop_padding < std::max<int64_t>(1, config.model.image_size),
          "augmentation.crop_padding is {}, but model.image_size is {}, so that nothing might be "
          "left of an image: choose a smaller padding",
          config.augmentation.crop_padding, config.model.image_size);
  config.model.head == Head::pretraining ? check_other_run(config)
                                         : check_classification_run(config);
}

}  // namespace tessera
