#include "launch/metrics/model_flops.h"

#include "models/architecture.h"
#include "models/output_rows.h"

namespace tessera {
namespace {

double heads_flops(const ModelConfig& config, const TargetCounts& counts) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto targets = static_cast<double>(counts.token_targets);
  const ModelTraits traits = traits_of(config);
  const bool has_pooler = traits.objective != Objective::embedding;
  const auto labels = has_pooler ? static_cast<double>(counts.document_targets) : 0.0;
  const double transform = traits.head_transform ? width * width : 0.0;
  const auto classes =
      static_cast<double>(traits.token_labels ? config.num_labels : config.vocab_size);
  const double head_weights = classes * width + transform;
  const bool only_classifier = architecture_of(config.kind).pooler == Pooler::none;
  const double pooler =
      only_classifier ? width * static_cast<double>(config.num_labels) : width * width;
  return 6.0 * (head_weights * targets + pooler * labels);
}

}  // namespace

double block_flops(const ModelConfig& config, const TargetCounts& counts) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto mlp = static_cast<double>(config.resolved_mlp_size());
  const auto attention = static_cast<double>(config.attention_size());
  const auto keys = static_cast<double>(config.resolved_kv_heads() * config.resolved_head_dim());
  const double qkv_weights = width * (attention + 2.0 * keys);
  const double other_weights = width * attention + (config.gated_mlp ? 3.0 : 2.0) * width * mlp;
  const auto stack = [&](double blocks, double rows, double row_pairs) {
    return blocks * (6.0 * (qkv_weights + other_weights) * rows + 12.0 * attention * row_pairs);
  };
  const auto layers = static_cast<double>(config.num_layers);
  const auto tokens = static_cast<double>(counts.tokens);
  const auto pairs = static_cast<double>(counts.pairs);
  if (!architecture_of(config.kind).cross_attention) {
    const int64_t last_rows =
        read_by_heads(config).count(counts.tokens, counts.token_targets, counts.documents);
    return stack(layers, tokens, pairs) -
           6.0 * other_weights * static_cast<double>(counts.tokens - last_rows);
  }
  // Cross-attention projects targets to queries and back, and sources to keys and values.
  const auto decoder_layers = static_cast<double>(config.resolved_decoder_layers());
  const auto source_tokens = static_cast<double>(counts.source_tokens);
  const double cross = 12.0 * width * (attention * tokens + keys * source_tokens) +
                       12.0 * attention * static_cast<double>(counts.cross_pairs);
  return stack(layers, source_tokens, static_cast<double>(counts.source_pairs)) +
         stack(decoder_layers, tokens, pairs) + decoder_layers * cross;
}

double model_flops(const ModelConfig& config, const TargetCounts& counts) {
  // The pixels of patches have no gradient.
  const auto patch_weights =
      static_cast<double>(traits_of(config).patch_width * config.hidden_size);
  return heads_flops(config, counts) + block_flops(config, counts) +
         4.0 * patch_weights * static_cast<double>(counts.tokens);
}

}  // namespace tessera
