#include "models/transformer.h"

#include <algorithm>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/rotary.h"
#include "core/trace/trace.h"
#include "models/architecture.h"
#include "parallel/communicators/traffic.h"

namespace tessera {
namespace {

std::deque<Block> make_blocks(ParameterStore& store, const ModelConfig& config, Communicator& tp) {
  std::deque<Block> blocks;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    blocks.emplace_back(store, fmt::format("blocks.{}", layer), config, layer, tp);
  }
  return blocks;
}

}  // namespace

Transformer::Transformer(ParameterStore& store, const ModelConfig& config, Communicator& tp)
    : config_(config),
      causal_(traits_of(config).causal),
      blocks_(make_blocks(store, config, tp)),
      inputs_(blocks_.size()) {
  if (const auto reason = attention_unsupported_reason(traits_of(config).mask_kinds())) {
    fail("no attention implementation supports the masks of this model: {}", *reason);
  }
  if (config.pre_norm()) {
    final_norm_.emplace(store, "final_norm", config, GradientRows::local);
  }
}

Visibility Transformer::visibility(const StepContext& ctx, AttentionMask mask,
                                   const Tensor& positions) const {
  const int64_t window = config_.attention_window;
  mask.causal |= causal_;
  if (window > 0) mask.window = mask.window > 0 ? std::min(mask.window, window) : window;
  Visibility result{mask};
  if (config_.positions == Positions::rotary) {
    result.rotary =
        ctx.arena.allocate({positions.numel(), config_.resolved_head_dim()}, DType::f32);
    rotary_table(positions, static_cast<float>(config_.rotary_base), result.rotary);
  }
  return result;
}

Tensor Transformer::last_norm(const StepContext& ctx, const Tensor& x) {
  if (!final_norm_) return x;
  const TraceRange range("final norm");
  return final_norm_->forward(ctx, x);
}

Tensor Transformer::forward(const StepContext& ctx, const Tensor& x, const AttentionMask& mask,
                            const Tensor& positions) {
  const TrafficScope traffic(Traffic::forward);
  visible_ = visibility(ctx, mask, positions);
  Tensor y = x;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    inputs_[i] = y;
    y = block_forward(ctx, i);
  }
  return last_norm(ctx, y);
}

Tensor Transformer::block_forward(const StepContext& ctx, size_t i) {
  const Tensor& x = inputs_[i];
  if (ctx.recompute != Recompute::block) return blocks_[i].forward(ctx, x, visible_);
  const Tensor y = ctx.arena.allocate(x.shape(), x.dtype());
  const Arena::Scope scope(ctx.arena);
  copy(blocks_[i].forward(ctx, x, visible_), y);
  return y;
}

void Transformer::backward(const StepContext& ctx, Tensor gradient) {
  const TrafficScope traffic(Traffic::backward);
  if (final_norm_) {
    const TraceRange range("final norm backward");
    final_norm_->backward(ctx, gradient, {}, gradient);
  }
  const Arena::Scope of_all(ctx.arena);
  ResidualGradient parts{gradient};
  if (!config_.pre_norm()) parts.branch = ctx.arena.allocate(gradient.shape(), gradient.dtype());
  for (size_t i = blocks_.size(); i-- > 0;) {
    const Arena::Scope scope(ctx.arena);
    if (ctx.recompute == Recompute::block) {
      const TrafficScope again(Traffic::recompute);
      const TraceRange range("recompute");
      blocks_[i].forward(ctx, inputs_[i], visible_);
    }
    blocks_[i].backward(ctx, parts);
  }
  const TraceRange range("residual backward");
  parts.join();
}

Tensor Transformer::extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                           const Tensor& positions) {
  const Visibility visible = visibility(ctx, {}, positions);
  Tensor y = x;
  for (Block& block : blocks_) y = block.extend(ctx, y, cache, visible);
  return last_norm(ctx, y);
}

AttentionMask mask_of(const TokenBatch& batch) {
  AttentionMask mask;
  mask.documents = batch.documents;
  mask.document_length = batch.document_length;
  return mask;
}

StepContext context_for(const StepContext& ctx, const TokenBatch& batch) {
  StepContext pass = ctx;
  pass.padded_rows = {batch.padded_rows, batch.seq_length};
  pass.rows = ctx.rows.of(batch.num_tokens());
  return pass;
}

}  // namespace tessera
