#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ops/activation.h"
#include "core/ops/rotary.h"

namespace tessera {

struct AttentionPlane;

/// The architectures; models/architecture.h describes how they differ.
enum class ModelKind : uint8_t {
  gpt2,
  llama,
  mistral,
  qwen2,
  qwen3,
  bert,
  roberta,
  modernbert,
  encoder_decoder,
  t5,
  vit
};

/// The objective of training: the next token, masked tokens (with model.next_sentence also
/// whether two sentences are consecutive), the label of a text, the label of each word, which text
/// of a batch belongs to another, or the next token of a text given its source text.
enum class Objective : uint8_t {
  causal_lm,
  masked_lm,
  classification,
  token_classification,
  embedding,
  seq2seq
};

/// Layer norm (Ba, Kiros, Hinton, 2016) or RMSNorm (Zhang, Sennrich, 2019), which has no bias.
enum class NormType : uint8_t { layer, rms };

/// Place of a block's norms: before each branch, or after each residual sum.
enum class NormPosition : uint8_t { pre, post };

/// Which layers have a bias: none, all linear layers and layer norms, only the projection to
/// queries, keys and values, or this one and attention's output.
enum class Bias : uint8_t { none, all, qkv, attention };

/// How a model encodes positions: a learned embedding of each position, rotary embeddings of
/// queries and keys (Su et al., "RoFormer", 2021), or a bias of attention scores that depends on
/// the distance: one that falls with it (Press et al., "ALiBi", 2022), or one learned for each
/// bucket of distances, which all layers share (Raffel et al., "T5", 2020).
enum class Positions : uint8_t { learned, rotary, alibi, relative };

/// The heads of a BERT: those of pre-training, one that classifies a text or each word of it, or
/// none, for an embedding of a text.
enum class Head : uint8_t { pretraining, classification, token_classification, embedding };

/// How the hidden states of a text become one vector: that of its first token, [CLS], or the mean
/// over all of its tokens, with special ones.
enum class Pooling : uint8_t { cls, mean };

/// Prediction of the classification head for a text, named as in Hugging Face: one of the classes,
/// any number of labels, or a number.
enum class ProblemType : uint8_t {
  single_label_classification,
  multi_label_classification,
  regression
};

/// The hyperparameters of a model, named as in Hugging Face and Megatron-LM. The defaults are a
/// small GPT-2 without a vocabulary; preset() has those of the other kinds.
struct ModelConfig {
  ModelKind kind = ModelKind::gpt2;
  int64_t num_layers = 4;          ///< of an encoder–decoder: the encoder's
  int64_t num_decoder_layers = 0;  ///< of an encoder–decoder; 0: num_layers
  int64_t hidden_size = 128;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 0;   ///< 0: num_heads; see resolved_kv_heads()
  int64_t head_dim = 0;       ///< 0: hidden_size / num_heads; see resolved_head_dim()
  int64_t mlp_size = 0;       ///< 0: see resolved_mlp_size()
  int64_t seq_length = 128;   ///< of an encoder–decoder: of its targets
  int64_t source_length = 0;  ///< of an encoder–decoder's sources; 0: seq_length
  int64_t vocab_size = 0;     ///< the tokenizer's, unless given
  int64_t image_size = 0;     ///< of images: rows and columns of pixels
  int64_t patch_size = 0;     ///< of images: rows and columns of a patch; 0: texts
  int64_t num_channels = 0;   ///< of images: numbers of a pixel
  /// For images: a pixel's number in [0, 1] becomes (number − mean) / std. One for each channel, or
  /// one for all.
  std::vector<double> image_mean = {0.5};
  std::vector<double> image_std = {0.5};
  double dropout = 0.0;            ///< after the embeddings and before each residual sum
  double attention_dropout = 0.0;  ///< on the attention weights
  Bias bias = Bias::all;
  NormType norm = NormType::layer;
  NormPosition norm_position = NormPosition::pre;
  Activation activation = Activation::gelu_tanh;
  bool gated_mlp = false;  ///< down(f(gate(x)) × up(x)) instead of down(f(up(x)))
  Positions positions = Positions::learned;
  bool embedding_norm = false;  ///< a norm of the sum of the embeddings
  bool tie_embeddings = true;   ///< the output head is the word embedding
  double norm_eps = 1e-5;
  double init_stddev = 0.02;
  /// Maximal update parametrization (µP): the width of the base model, whose learning rate and
  /// initial weights suit this one; 0: standard parametrization.
  int64_t mup_base_hidden_size = 0;
  int64_t mup_base_head_dim = 0;  ///< the head size of µP's base model
  RotaryFrequencies rotary = {};
  double local_rotary_base = 0.0;       ///< of layers with a window, unscaled; 0: as in all others
  int64_t relative_buckets = 32;        ///< of positions: relative, for all directions together
  int64_t relative_max_distance = 128;  ///< where the last bucket of a direction begins
  bool qk_norm = false;                 ///< RMSNorm of each head's query and key
  bool scaled_logits = false;    ///< the input of the output head is divided by sqrt(hidden_size),
                                 ///< with µP by that of the base model; see logit_scale()
  double attention_scale = 0.0;  ///< of q·k, with µP of the base model; 0: 1 / sqrt(head_dim), see
                                 ///< resolved_attention_scale()
  int64_t attention_window = 0;  ///< tokens with |t − s| < attention_window are visible; 0: all
  /// Which layers have the window: a letter per layer, L (local) or G (global: they see all),
  /// repeated until the last layer.
  std::string window_pattern = "L";
  int64_t attention_dilation = 1;  ///< of the window: AttentionMask::dilation
  int64_t global_tokens = 0;       ///< of layers with a window: AttentionMask::global_tokens
  /// Causal models only: the first tokens of a document see each other (AttentionMask::prefix), so
  /// all but the last of them have no loss.
  int64_t attention_prefix = 0;
  /// Position mask, for models with one stack. Load the file into `attention_plane` before you make
  /// a Model (launch/checkpoint/attention_mask_file.h).
  std::optional<std::string> attention_mask_file = {};
  std::shared_ptr<const AttentionPlane> attention_plane = {};
  int64_t token_types = 0;         ///< BERT's segments; 0: none
  int64_t num_labels = 0;          ///< classes of a classification head; 1 for a number
  double similarity_scale = 20.0;  ///< factor of the cosines in the contrastive loss
  bool next_sentence = false;      ///< BERT's second pre-training head and its pooler
  Head head = Head::pretraining;
  ProblemType problem_type = ProblemType::single_label_classification;
  Pooling classifier_pooling = Pooling::cls;  ///< of a head that classifies texts
  Pooling embedding_pooling = Pooling::mean;  ///< of Head::embedding
  bool symmetric_loss = false;                ///< each positive must also find its anchor
  bool hard_negatives = false;                ///< each pair has a third text, which is no answer
  int64_t lora_rank = 0;                      ///< of the adapters; 0: none
  double lora_alpha = 16.0;                   ///< lora_alpha / lora_rank scales what they add
  double lora_dropout = 0.0;                  ///< of the input of their A
  /// Patterns of the names of linear layers within the blocks that have an adapter; see
  /// core/name_pattern.h.
  std::vector<std::string> lora_targets = {"*"};

  /// A gated MLP has three matrices instead of two: 8/3 of hidden_size, rounded up to a multiple of
  /// 64, has about the parameters of 4 × hidden_size without a gate.
  int64_t resolved_mlp_size() const {
    if (mlp_size != 0) return mlp_size;
    return gated_mlp ? (8 * hidden_size + 191) / 192 * 64 : 4 * hidden_size;
  }
  int64_t resolved_kv_heads() const { return num_kv_heads == 0 ? num_heads : num_kv_heads; }
  int64_t resolved_head_dim() const { return head_dim == 0 ? hidden_size / num_heads : head_dim; }
  int64_t resolved_decoder_layers() const {
    return num_decoder_layers == 0 ? num_layers : num_decoder_layers;
  }
  int64_t resolved_source_length() const { return source_length == 0 ? seq_length : source_length; }
  bool has_mup() const { return mup_base_hidden_size > 0; }
  /// µP: the width over that of the base model; 1 in standard parametrization.
  double width_mult() const {
    if (!has_mup()) return 1.0;
    return static_cast<double>(hidden_size) / static_cast<double>(mup_base_hidden_size);
  }
  /// Factor of the products of queries and keys. µP: that of the base model, times its head
  /// size over this one.
  double resolved_attention_scale() const {
    const auto dim = static_cast<double>(resolved_head_dim());
    const double base = has_mup() ? static_cast<double>(mup_base_head_dim) : dim;
    const double scale = attention_scale != 0.0 ? attention_scale : 1.0 / std::sqrt(base);
    return scale * (base / dim);
  }
  /// Factor of the input of a head's last layer, and so of the logits without their bias.
  double logit_scale() const {
    const double scale = 1.0 / width_mult();
    if (!scaled_logits) return scale;
    const int64_t width = has_mup() ? mup_base_hidden_size : hidden_size;
    return scale / std::sqrt(static_cast<double>(width));
  }
  /// Whether the model sees images instead of texts.
  bool has_images() const { return patch_size > 0; }
  int64_t num_patches() const {
    const int64_t side = patch_size == 0 ? 0 : image_size / patch_size;
    return side * side;
  }
  /// Numbers of a patch.
  int64_t patch_width() const { return patch_size * patch_size * num_channels; }
  /// Whether a token before the patches of an image is what a head sees of it.
  bool has_class_token() const { return has_images() && classifier_pooling == Pooling::cls; }
  /// Tokens of an image.
  int64_t image_tokens() const { return num_patches() + (has_class_token() ? 1 : 0); }
  /// Rows of the token type embedding. Those of images are the class token and what is added to
  /// each patch, the bias of their projection.
  int64_t resolved_token_types() const {
    return has_images() ? (has_class_token() ? 2 : 1) : token_types;
  }
  int64_t attention_size() const {
    return num_heads * resolved_head_dim();
  }  ///< of all heads' outputs
  /// Whether a layer has the window.
  bool is_local(int64_t layer) const {
    return attention_window > 0 &&
           window_pattern[static_cast<size_t>(layer) % window_pattern.size()] == 'L';
  }
  /// The rotary frequencies of a layer.
  RotaryFrequencies rotary_of(int64_t layer) const {
    if (local_rotary_base == 0.0 || !is_local(layer)) return rotary;
    return {.base = local_rotary_base};
  }
  /// Whether attention adds a bias to its scores that depends on the distance.
  bool has_position_bias() const {
    return positions == Positions::alibi || positions == Positions::relative;
  }
  bool pre_norm() const { return norm_position == NormPosition::pre; }
  bool linear_bias() const { return bias == Bias::all; }  ///< outside of attention
  bool output_bias() const {
    return bias == Bias::all || bias == Bias::attention;
  }  ///< attention's
  bool qkv_bias() const { return bias != Bias::none; }
  bool norm_bias() const { return bias == Bias::all && norm == NormType::layer; }

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace tessera
