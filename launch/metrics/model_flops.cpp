#include "launch/metrics/model_flops.h"

#include "models/architecture.h"

namespace tessera {

double model_flops(const ModelConfig& config, const TargetCounts& counts) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto layers = static_cast<double>(config.num_layers);
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
  return 6.0 * (layers * block_weights * tokens + head_weights * targets + width * width * labels) +
         12.0 * layers * attention * pairs;
}

}  // namespace tessera
