#include "launch/metrics/model_flops.h"

#include "models/architecture.h"

namespace tessera {

double model_flops(const ModelConfig& config, const TargetCounts& counts) {
  const auto width = static_cast<double>(config.hidden_size);
  const auto layers = static_cast<double>(config.num_layers);
  const auto mlp = static_cast<double>(config.resolved_mlp_size());
  const auto tokens = static_cast<double>(counts.tokens);
  const auto targets = static_cast<double>(counts.token_targets);
  const auto labels = static_cast<double>(counts.document_targets);
  const auto pairs = static_cast<double>(counts.pairs);

  const auto attention = static_cast<double>(config.attention_size());
  const auto keys = static_cast<double>(config.resolved_kv_heads() * config.resolved_head_dim());
  const double block_weights =
      2.0 * width * (attention + keys) + (config.gated_mlp ? 3.0 : 2.0) * width * mlp;
  const double transform = traits_of(config).head_transform ? width * width : 0.0;
  const double head_weights = static_cast<double>(config.vocab_size) * width + transform;
  return 6.0 * (layers * block_weights * tokens + head_weights * targets + width * width * labels) +
         12.0 * layers * attention * pairs;
}

}  // namespace tessera
