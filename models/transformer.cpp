#include "models/transformer.h"

#include "core/error.h"

namespace tessera {
namespace {

std::deque<Block> make_blocks(ParameterStore& store, const ModelConfig& config, Communicator& tp) {
  const Gelu gelu = config.is_bert() ? Gelu::erf : Gelu::tanh;
  std::deque<Block> blocks;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    blocks.emplace_back(store, fmt::format("blocks.{}", layer), config, layer, gelu, tp);
  }
  return blocks;
}

}  // namespace

Transformer::Transformer(ParameterStore& store, const ModelConfig& config, bool causal,
                         Communicator& tp)
    : causal_(causal), window_(config.attention_window), blocks_(make_blocks(store, config, tp)) {
  if (config.pre_norm()) {
    final_norm_.emplace(store, "final_norm", config.hidden_size, config.bias,
                        config.layer_norm_eps);
  }
}

AttentionMask Transformer::with_own(AttentionMask mask) const {
  mask.causal = causal_;
  mask.window = window_;
  return mask;
}

Tensor Transformer::last_norm(const StepContext& ctx, const Tensor& x) {
  return final_norm_ ? final_norm_->forward(ctx, x) : x;
}

Tensor Transformer::forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility) {
  const Visibility whole{with_own(visibility.mask), visibility.positions};
  Tensor y = x;
  for (Block& block : blocks_) y = block.forward(ctx, y, whole);
  return last_norm(ctx, y);
}

void Transformer::backward(const StepContext& ctx, Tensor gradient) {
  if (final_norm_) final_norm_->backward(ctx, gradient, {}, gradient);
  for (size_t i = blocks_.size(); i-- > 0;) blocks_[i].backward(ctx, gradient);
}

Tensor Transformer::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                           const Tensor& positions) {
  const Visibility visibility{with_own({}), positions};
  Tensor y = x;
  for (Block& block : blocks_) y = block.extend(ctx, y, cache, visibility);
  return last_norm(ctx, y);
}

Visibility visibility_of(const TokenBatch& batch) {
  Visibility visibility;
  visibility.mask.documents = batch.documents;
  visibility.positions = batch.positions;
  return visibility;
}

StepContext context_for(const StepContext& ctx, const TokenBatch& batch) {
  StepContext pass = ctx;
  pass.places = {batch.padded_rows, batch.seq_length};
  return pass;
}

}  // namespace tessera
