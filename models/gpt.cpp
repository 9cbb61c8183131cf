#include "models/gpt.h"

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/positions.h"

namespace tessera {

// Members are declared in the order of the forward pass, which is the order of the flat buffers.
Gpt::Gpt(const ModelConfig& config, ParameterStore& store, Communicator& tp)
    : config_(config),
      store_(store),
      tp_(tp),
      embeddings_(store, config, tp),
      transformer_(store, config, /*causal=*/true, tp),
      head_(store, config, embeddings_.words(), tp) {}

Tensor Gpt::hidden_states(const StepContext& ctx, const TokenBatch& batch) {
  const Shape row = {1, batch.num_tokens()};
  const Tensor x = embeddings_.forward(ctx, batch.tokens.view(row), batch.positions.view(row), {});
  const Tensor y = transformer_.forward(ctx, x, mask_of(batch), batch.positions);
  return y.view({y.dim(1), y.dim(2)});
}

void Gpt::train(const StepContext& outer, const TokenBatch& batch, const LossScale& scale,
                const LossSums& sums) {
  const StepContext ctx = context_for(outer, batch);
  const Tensor x = hidden_states(ctx, batch);  // (n, C)
  const Tensor dx = ctx.arena.allocate(x.shape(), x.dtype());
  head_.loss_and_gradient(ctx, x, batch, scale.token, sums, dx);

  const Tensor gradient = dx.view({1, dx.dim(0), dx.dim(1)});
  transformer_.backward(ctx, gradient);
  embeddings_.backward(ctx, gradient);
}

void Gpt::evaluate(const StepContext& outer, const TokenBatch& batch, const LossSums& sums,
                   Tensor /*predictions*/) {
  const StepContext ctx = context_for(outer, batch);
  head_.loss(ctx, hidden_states(ctx, batch), batch, sums);
}

Tensor Gpt::positions_from(const StepContext& ctx, const Tensor& tokens, int64_t first) const {
  require(tokens.shape().rank() == 2 && first + tokens.dim(1) <= config_.seq_length,
          "gpt: tokens {} from position {} exceed model.seq_length {}", describe(tokens), first,
          config_.seq_length);
  const Tensor positions = ctx.arena.allocate(tokens.shape(), DType::i32);
  fill_positions(first, positions);
  return positions;
}

Tensor Gpt::logits(const StepContext& ctx, const Tensor& tokens) {
  const Tensor positions = positions_from(ctx, tokens, 0);
  const Tensor x = embeddings_.forward(ctx, tokens, positions, {});
  const Tensor y = transformer_.forward(ctx, x, AttentionMask::none(), positions);
  Tensor logits = ctx.arena.allocate({tokens.numel(), config_.vocab_size}, DType::f32);
  head_.whole_logits(ctx, y.view({tokens.numel(), config_.hidden_size}), logits);
  return logits;
}

Tensor Gpt::extend(const StepContext& ctx, const Tensor& tokens, KeyValueCache& cache) {
  const int64_t batch = tokens.dim(0), length = tokens.dim(1), width = config_.hidden_size;
  const Tensor positions = positions_from(ctx, tokens, cache.length());
  const Tensor x = embeddings_.forward(ctx, tokens, positions, {});
  const Tensor y = transformer_.extend(ctx, x, cache, positions).view({batch * length, width});
  cache.advance(length);
  const Tensor last = ctx.arena.allocate({batch, width}, y.dtype());
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t row = b * length + length - 1;
    copy(y.slice(row, row + 1), last.slice(b, b + 1));
  }
  Tensor logits = ctx.arena.allocate({batch, config_.vocab_size}, DType::f32);
  head_.whole_logits(ctx, last, logits);
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
