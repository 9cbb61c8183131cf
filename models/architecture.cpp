#include "models/architecture.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/error.h"
#include "models/attention_plane.h"

namespace tessera {
namespace {

// clang-format off
constexpr std::array<Architecture, 11> kArchitectures = {{
    // Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
    {.kind = ModelKind::gpt2, .name = "gpt2", .display_name = "GPT-2",
     .summary = "a decoder that predicts the next token",
     .pretraining = Objective::causal_lm, .scaled_residual_init = true},
    // Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023.
    {.kind = ModelKind::llama, .name = "llama", .display_name = "Llama",
     .summary = "a decoder with RMSNorm, SwiGLU and rotary positions",
     .pretraining = Objective::causal_lm},
    // Jiang et al., "Mistral 7B", 2023.
    {.kind = ModelKind::mistral, .name = "mistral", .display_name = "Mistral",
     .summary = "a Llama with a sliding window",
     .pretraining = Objective::causal_lm},
    // Yang et al., "Qwen2 Technical Report", 2024.
    {.kind = ModelKind::qwen2, .name = "qwen2", .display_name = "Qwen2",
     .summary = "a Llama with biases of queries, keys and values",
     .pretraining = Objective::causal_lm},
    // Yang et al., "Qwen3 Technical Report", 2025.
    {.kind = ModelKind::qwen3, .name = "qwen3", .display_name = "Qwen3",
     .summary = "a Llama that normalizes the queries and keys of each head",
     .pretraining = Objective::causal_lm},
    // Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2019. A sample has up
    // to three special tokens.
    {.kind = ModelKind::bert, .name = "bert", .display_name = "BERT",
     .summary = "an encoder that predicts masked tokens",
     .pretraining = Objective::masked_lm,
     .head_transform = true, .token_types = true, .next_sentence = true,
     .classification = true, .special_tokens = true, .min_seq_length = 8},
    // Liu et al., "RoBERTa: A Robustly Optimized BERT Pretraining Approach", 2019.
    {.kind = ModelKind::roberta, .name = "roberta", .display_name = "RoBERTa",
     .summary = "a BERT without sentence pairs in pre-training",
     .pretraining = Objective::masked_lm,
     .head_transform = true, .token_types = true,
     .classification = true, .special_tokens = true, .min_seq_length = 8},
    // Warner et al., "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder", 2024.
    {.kind = ModelKind::modernbert, .name = "modernbert", .display_name = "ModernBERT",
     .summary = "an encoder with GeGLU and rotary positions, in which two of three layers have a "
                "window",
     .pretraining = Objective::masked_lm,
     .head_transform = true, .head_bias = true, .pooler = Pooler::norm,
     .first_norm = false, .classification = true, .special_tokens = true, .min_seq_length = 8},
    // Vaswani et al., "Attention Is All You Need", 2017, with the blocks of GPT-2.
    {.kind = ModelKind::encoder_decoder, .name = "encoder_decoder",
     .display_name = "Encoder-decoder",
     .summary = "an encoder of a source text and a decoder that predicts a target text from it",
     .pretraining = Objective::seq2seq, .scaled_residual_init = true, .cross_attention = true},
    // Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    // Transformer", 2020.
    {.kind = ModelKind::t5, .name = "t5", .display_name = "T5",
     .summary = "an encoder-decoder with RMSNorm and relative positions",
     .pretraining = Objective::seq2seq, .cross_attention = true, .inner_dropout = true},
    // Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at
    // Scale", 2021.
    {.kind = ModelKind::vit, .name = "vit", .display_name = "ViT",
     .summary = "an encoder of the patches of an image, which it classifies",
     .pretraining = Objective::classification,
     .pooler = Pooler::none, .classification = true, .images = true},
}};
// clang-format on

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture& architecture_of(ModelKind kind) {
  const auto found = std::ranges::find(kArchitectures, kind, &Architecture::kind);
  require(found != kArchitectures.end(), "there is no architecture with the number {}",
          static_cast<int>(kind));
  return *found;
}

bool ModelTraits::hides(int64_t t, int64_t s, bool is_local) const {
  const int64_t heads = attention_plane ? attention_plane->heads() : 1;
  for (int64_t h = 0; h < heads; ++h) {
    if (!hides(t, s, is_local, h)) return false;
  }
  return true;
}

bool ModelTraits::hides(int64_t t, int64_t s, bool is_local, int64_t head) const {
  if (attention_plane && attention_plane->hides(head, t, s)) return true;
  if (causal && s > t && s >= attention_prefix) return true;
  if (!is_local || std::min(t, s) < global_tokens) return false;
  const int64_t distance = std::abs(t - s);
  return distance >= attention_window * attention_dilation || distance % attention_dilation != 0;
}

MaskKinds ModelTraits::mask_kinds() const {
  MaskKinds kinds;
  kinds.causal = causal;
  kinds.window = attention_window > 0;
  kinds.dilation = attention_dilation > 1;
  kinds.global_tokens = global_tokens > 0;
  kinds.prefix = attention_prefix > 0;
  kinds.hidden_by_position = attention_plane && !attention_plane->is_additive();
  kinds.additive_by_position = attention_plane && attention_plane->is_additive();
  kinds.documents = kinds.compact = true;
  return kinds;
}

namespace {

Objective objective_of(Head head, Objective pretraining) {
  switch (head) {
    case Head::pretraining:
      return pretraining;
    case Head::classification:
      return Objective::classification;
    case Head::token_classification:
      return Objective::token_classification;
    case Head::embedding:
      return Objective::embedding;
  }
  return pretraining;
}

int64_t label_width_of(const ModelConfig& config) {
  const bool one_class = config.problem_type == ProblemType::single_label_classification;
  return config.head != Head::classification || one_class ? 0 : config.num_labels;
}

}  // namespace

ModelTraits traits_of(const ModelConfig& config) {
  const Architecture& architecture = architecture_of(config.kind);
  const bool classifies = config.head == Head::classification;
  ModelTraits traits;
  traits.name = architecture.display_name;
  traits.token_labels = config.head == Head::token_classification;
  traits.objective = objective_of(config.head, architecture.pretraining);
  traits.causal = architecture.pretraining == Objective::causal_lm ||
                  architecture.pretraining == Objective::seq2seq;
  traits.attention_window = config.attention_window;
  traits.attention_dilation = config.attention_dilation;
  traits.global_tokens = config.global_tokens;
  traits.attention_prefix = config.attention_prefix;
  traits.attention_plane = config.attention_plane;
  traits.sentence_pairs = config.next_sentence;
  traits.document_labels = config.next_sentence || classifies;
  traits.problem_type = config.problem_type;
  traits.label_width = label_width_of(config);
  const bool embeds = traits.objective == Objective::embedding;
  traits.texts_of_sample = embeds ? (config.hard_negatives ? 3 : 2) : 0;
  traits.row_length = config.seq_length * (embeds ? traits.texts_of_sample : 1);
  traits.patch_width = config.has_images() ? config.patch_width() : 0;
  traits.source_length = architecture.cross_attention ? config.resolved_source_length() : 0;
  traits.special_tokens = architecture.special_tokens;
  traits.head_transform = traits.token_labels ? architecture.pooler == Pooler::norm
                                              : architecture.head_transform && !embeds;
  return traits;
}

void apply_preset(ModelConfig& config, ModelKind kind) {
  const ModelConfig defaults;
  config.kind = kind;
  config.bias = defaults.bias;
  config.norm = defaults.norm;
  config.norm_position = defaults.norm_position;
  config.norm_eps = defaults.norm_eps;
  config.activation = defaults.activation;
  config.gated_mlp = defaults.gated_mlp;
  config.positions = defaults.positions;
  config.rotary.base = defaults.rotary.base;
  config.local_rotary_base = defaults.local_rotary_base;
  config.qk_norm = defaults.qk_norm;
  config.attention_scale = defaults.attention_scale;
  config.embedding_norm = defaults.embedding_norm;
  config.attention_window = defaults.attention_window;
  config.window_pattern = defaults.window_pattern;
  config.tie_embeddings = defaults.tie_embeddings;
  config.scaled_logits = defaults.scaled_logits;
  config.patch_size = kind == ModelKind::vit ? 16 : 0;
  switch (kind) {
    case ModelKind::gpt2:
    case ModelKind::encoder_decoder:
      break;
    case ModelKind::bert:
    case ModelKind::roberta:
      config.norm_position = NormPosition::post;
      config.norm_eps = kind == ModelKind::bert ? 1e-12 : 1e-5;
      config.activation = Activation::gelu;
      config.embedding_norm = true;
      break;
    case ModelKind::modernbert:
      config.embedding_norm = true;
      config.bias = Bias::none;
      config.activation = Activation::gelu;
      config.gated_mlp = true;
      config.positions = Positions::rotary;
      config.rotary.base = 160000.0;
      config.local_rotary_base = 10000.0;
      config.attention_window = 65;  // 64 tokens on each side
      config.window_pattern = "GLL";
      break;
    case ModelKind::t5:
      config.norm = NormType::rms;
      config.norm_eps = 1e-6;
      config.bias = Bias::none;
      config.activation = Activation::relu;
      config.positions = Positions::relative;
      config.attention_scale = 1.0;
      config.scaled_logits = true;
      break;
    case ModelKind::vit:
      config.norm_eps = 1e-12;
      config.activation = Activation::gelu;
      break;
    case ModelKind::llama:
    case ModelKind::mistral:
    case ModelKind::qwen2:
    case ModelKind::qwen3:
      config.norm = NormType::rms;
      config.norm_eps = 1e-6;
      config.bias = kind == ModelKind::qwen2 ? Bias::qkv : Bias::none;
      config.activation = Activation::silu;
      config.gated_mlp = true;
      config.positions = Positions::rotary;
      config.qk_norm = kind == ModelKind::qwen3;
      config.attention_window = kind == ModelKind::mistral ? 4096 : 0;
      config.tie_embeddings = false;
      break;
  }
}

ModelConfig preset(ModelKind kind) {
  ModelConfig config;
  apply_preset(config, kind);
  return config;
}

}  // namespace tessera
