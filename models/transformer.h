#pragma once

#include <deque>
#include <optional>

#include "models/block.h"
#include "models/token_batch.h"

namespace tessera {

/// A stack of blocks and, if they are pre-norm, a final norm.
class Transformer {
 public:
  Transformer(ParameterStore& store, const ModelConfig& config, Communicator& tp);

  /// x (B, T, C) → (B, T, C) in ctx.arena; where rows are split, (1, n, C) of this rank's.
  /// `mask` says what the batch hides (padding, documents, anything else); what the model hides
  /// (the future, what is beyond its window) is added. positions (B × T) int32, of all tokens in
  /// their documents, are read where the model's are rotary.
  Tensor forward(const StepContext& ctx, const Tensor& x, const AttentionMask& mask,
                 const Tensor& positions);

  /// gradient, shaped like x: on entry that of the output, on return that of x.
  void backward(const StepContext& ctx, Tensor gradient);

  /// For generation; see SelfAttention::extend. Does not advance the cache.
  Tensor extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                const Tensor& positions);

  /// The attention of a layer, for a look at its weights after a forward pass.
  const SelfAttention& attention(int64_t layer) const {
    return blocks_[static_cast<size_t>(layer)].attention();
  }

 private:
  Tensor block_forward(const StepContext& ctx, size_t i);
  Tensor last_norm(const StepContext& ctx, const Tensor& x);
  Visibility visibility(const StepContext& ctx, AttentionMask mask, const Tensor& positions) const;

  ModelConfig config_;
  bool causal_;
  std::deque<Block> blocks_;
  std::optional<Norm> final_norm_;
  std::vector<Tensor> inputs_;  // of each block, shaped like x, of the last forward pass
  Visibility visible_;          // in the last forward pass
};

/// What the tokens of a batch see: those of their own document.
AttentionMask mask_of(const TokenBatch& batch);

/// `ctx` for a pass over `batch`, whose activations have a row for each of its tokens, which the
/// tensor ranks share as ctx.rows says.
StepContext context_for(const StepContext& ctx, const TokenBatch& batch);

}  // namespace tessera
