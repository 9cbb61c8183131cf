#include "launch/metrics/model_flops.h"

#include "models/architecture.h"

namespace tessera {

double model_flops(const ModelConfig& config, const TargetCounts& counts) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto mlp = static_cast<double>(config.resolved_mlp_size());
  const auto tokens = static_cast<double>(counts.tokens);
  const auto targets = static_cast<double>(counts.token_targets);
  const ModelTraits traits = traits_of(config);
  const bool has_pooler = traits.objective != Objective::embedding;
  const auto labels = has_pooler ? static_cast<double>(counts.document_targets) : 0.0;
  const auto pairs = static_cast<double>(counts.pairs);

  const auto attention = static_cast<double>(config.attention_size());
  const auto keys = static_cast<double>(config.resolved_kv_heads() * config.resolved_head_dim());
  const double block_weights =
      2.0 * width * (attention + keys) + (config.gated_mlp ? 3.0 : 2.0) * width * mlp;
  const double transform = traits.head_transform ? width * width : 0.0;
  const auto classes =
      static_cast<double>(traits.token_labels ? config.num_labels : config.vocab_size);
  const double head_weights = classes * width + transform;
  const bool only_classifier = architecture_of(config.kind).pooler == Pooler::none;
  const double pooler =
      only_classifier ? width * static_cast<double>(config.num_labels) : width * width;
  // The pixels of patches have no gradient.
  const double patches = 4.0 * static_cast<double>(traits.patch_width) * width * tokens;
  const double heads = 6.0 * (head_weights * targets + pooler * labels) + patches;
  const auto stack = [&](double blocks, double rows, double row_pairs) {
    return blocks * (6.0 * block_weights * rows + 12.0 * attention * row_pairs);
  };
  const auto layers = static_cast<double>(config.num_layers);
  if (traits.source_length == 0) return heads + stack(layers, tokens, pairs);
  // Cross-attention projects targets to queries and back, and sources to keys and values.
  const auto decoder_layers = static_cast<double>(config.resolved_decoder_layers());
  const auto source_tokens = static_cast<double>(counts.source_tokens);
  const double cross = 12.0 * width * (attention * tokens + keys * source_tokens) +
                       12.0 * attention * static_cast<double>(counts.cross_pairs);
  return heads + stack(layers, source_tokens, static_cast<double>(counts.source_pairs)) +
         stack(decoder_layers, tokens, pairs) + decoder_layers * cross;
}

}  // namespace tessera
