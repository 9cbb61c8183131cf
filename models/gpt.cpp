#include "models/gpt.h"

#include "core/error.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"

namespace tessera {
namespace {

std::deque<Block> make_blocks(const ModelConfig& config, ParameterStore& store, Communicator& tp) {
  std::deque<Block> blocks;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    blocks.emplace_back(store, fmt::format("blocks.{}", layer), config, layer, Gelu::tanh, tp);
  }
  return blocks;
}

Parameter& declare_positions(const ModelConfig& config, ParameterStore& store) {
  return store.declare({"embedding.position",
                        {config.seq_length, config.hidden_size},
                        {},
                        Init::normal(static_cast<float>(config.init_stddev)),
                        /*decay=*/true});
}

}  // namespace

// Members are declared in the order of the forward pass, which is the order of the flat buffers.
Gpt::Gpt(const ModelConfig& config, ParameterStore& store, Communicator& tp)
    : config_(config),
      store_(store),
      tp_(tp),
      words_(store, "embedding.word", config.vocab_size, config.hidden_size,
             static_cast<float>(config.init_stddev), tp),
      positions_(&declare_positions(config, store)),
      blocks_(make_blocks(config, store, tp)),
      final_norm_(store, "final_norm", config.hidden_size, config.bias, config.layer_norm_eps),
      head_(words_.table(), words_.vocab(), tp) {}

Tensor Gpt::embed(const StepContext& ctx, const Tensor& tokens, int64_t first_position) {
  require(tokens.shape().rank() == 2 && first_position + tokens.dim(1) <= config_.seq_length,
          "gpt: tokens {} from position {} exceed model.seq_length {}", describe(tokens),
          first_position, config_.seq_length);
  const Tensor x = words_.forward(ctx, tokens);  // (B, T, C)
  add_positions_forward(x, positions_->value, first_position, x);
  const Dropout dropout =
      ctx.dropout(config_.dropout, RandomPurpose::embedding_dropout, 0, tokens.dim(1));
  if (dropout.active()) dropout_forward(x, dropout, x);
  return x;
}

Tensor Gpt::hidden_states(const StepContext& ctx, const Tensor& tokens) {
  Tensor x = embed(ctx, tokens, 0);
  for (Block& block : blocks_) x = block.forward(ctx, x, AttentionMask::make_causal());
  return final_norm_.forward(ctx, x).view({tokens.numel(), config_.hidden_size});
}

void Gpt::train(const StepContext& ctx, const Tensor& tokens, const Tensor& targets, float scale,
                Tensor loss_sum) {
  const Tensor x = hidden_states(ctx, tokens);
  const Tensor dx = ctx.arena.allocate(x.shape(), x.dtype());
  head_.loss_and_gradient(ctx, x, targets.view({targets.numel()}), scale, loss_sum, dx);

  const Tensor gradient = dx.view({tokens.dim(0), tokens.dim(1), config_.hidden_size});
  final_norm_.backward(ctx, gradient, {}, gradient);
  for (size_t i = blocks_.size(); i-- > 0;) blocks_[i].backward(ctx, gradient);

  const Dropout dropout =
      ctx.dropout(config_.dropout, RandomPurpose::embedding_dropout, 0, tokens.dim(1));
  if (dropout.active()) dropout_backward(gradient, dropout, gradient);
  add_positions_backward(gradient, positions_->grad);
  ctx.gradient_is_final(*positions_);
  words_.backward(gradient);
  ctx.gradient_is_final(words_.table());
}

void Gpt::evaluate(const StepContext& ctx, const Tensor& tokens, const Tensor& targets,
                   Tensor loss_sum) {
  head_.loss(ctx, hidden_states(ctx, tokens), targets.view({targets.numel()}), loss_sum);
}

Tensor Gpt::logits(const StepContext& ctx, const Tensor& tokens) {
  const Tensor x = hidden_states(ctx, tokens);
  Tensor logits = ctx.arena.allocate({tokens.numel(), config_.vocab_size}, DType::f32);
  head_.whole_logits(ctx, x, logits);
  return logits;
}

Tensor Gpt::extend(const StepContext& ctx, const Tensor& tokens, KeyValueCache& cache) {
  const int64_t batch = tokens.dim(0), positions = tokens.dim(1), width = config_.hidden_size;
  Tensor x = embed(ctx, tokens, cache.length());
  for (Block& block : blocks_) x = block.extend(ctx, x, cache);
  cache.advance(positions);
  const Tensor last = ctx.arena.allocate({batch, width}, x.dtype());
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t row = b * positions + positions - 1;
    copy(x.view({batch * positions, width}).slice(row, row + 1), last.slice(b, b + 1));
  }
  Tensor logits = ctx.arena.allocate({batch, config_.vocab_size}, DType::f32);
  head_.whole_logits(ctx, final_norm_.forward(ctx, last), logits);
  return logits;
}

KeyValueCache Gpt::make_cache(int64_t batch) const {
  const int64_t heads = config_.num_heads / tp_.size();
  return {config_.num_layers,
          {batch, heads, config_.seq_length, config_.head_dim()},
          store_.precision(),
          store_.device()};
}

}  // namespace tessera
