#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "models/layers/attention/position_bias.h"
#include "models/layers/block.h"
#include "models/output_rows.h"
#include "models/token_batch.h"

namespace tessera {

/// The differences between a model's stacks: an encoder–decoder has two.
struct StackSpec {
  std::string name = {};  ///< prefix of its parameters: "decoder."
  bool causal = false;    ///< its tokens see no later ones
  bool has_cross_attention = false;
  int first_layer = 0;             ///< the number of its first layer among all, for random numbers
  const char* next_unit = "head";  ///< the ParameterUnit of what follows the blocks
};

/// A stack of blocks and, if they are pre-norm, a final norm. With Architecture::inner_dropout,
/// dropout of the output.
class Transformer {
 public:
  Transformer(ParameterStore& store, const ModelConfig& config, Communicator& tp,
              const StackSpec& stack);
  /// The only stack of a model.
  Transformer(ParameterStore& store, const ModelConfig& config, Communicator& tp);

  /// x (B, T, C) → (B, T, C) in ctx.arena; the local rows (1, n, C) if rows are sharded. `mask` is
  /// that of the batch (padding, documents, anything else); the model's own causal mask, window
  /// and attention plane are added. positions (B × T) int32, of all tokens within their documents,
  /// are read only by rotary models. `source`, which must live until the end of the backward pass,
  /// is for a stack with cross-attention. With `outputs`, of a batch without padding and for a
  /// stack without cross-attention, returns only their local rows, (1, r, C).
  Tensor forward(const StepContext& ctx, const Tensor& x, const AttentionMask& mask,
                 const Tensor& positions, const EncodedSource* source = nullptr,
                 const std::optional<OutputRows>& outputs = {});

  /// Given the gradient of the output, which it overwrites, returns that of x, shaped like x: in
  /// the memory of `gradient`, or in ctx.arena after a pass with `outputs`. Ends at the block with
  /// the store's first parameter that is trained; if that is not the first block, there is no
  /// gradient of x: returns an undefined tensor.
  Tensor backward(const StepContext& ctx, Tensor gradient);

  /// For generation; see SelfAttention::extend. Does not advance the cache. With Recompute::block,
  /// the arena has the activations of one block at a time.
  Tensor extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                const Tensor& positions, const EncodedSource* source = nullptr);

  /// The keys and values of a source in cross-attention of each layer, in ctx.arena.
  std::vector<Tensor> project_source(const StepContext& ctx, const EncodedSource& source);

  /// Tells `units` which blocks each pass uses from now on; null: all values stay where they are.
  void listen(UnitListener* units) { units_ = units; }

  /// The attention of a layer, to inspect its weights after a forward pass.
  const SelfAttention& attention(int64_t layer) const {
    return blocks_[static_cast<size_t>(layer)].attention();
  }
  /// The block's cross-attention; null if it has none.
  const CrossAttention* cross_attention(int64_t layer) const {
    return blocks_[static_cast<size_t>(layer)].cross_attention();
  }

 private:
  /// Memory for the gradient of an activation whose sum is `sum`.
  ResidualGradient residual_gradient(const StepContext& ctx, const Tensor& sum) const;
  /// The lowest block that a backward pass reaches.
  size_t first_trained_block() const;
  Tensor last_norm(const StepContext& ctx, const Tensor& x);
  /// The dropout of the output, of whose rows `ctx` is.
  Dropout final_dropout(const StepContext& ctx) const;
  /// The views of layers with a window, and of all others.
  struct Views {
    Visibility local, global;
  };
  Views views(const StepContext& ctx, const AttentionMask& mask, const Tensor& positions) const;
  const Visibility& view_of(const Views& views, size_t layer) const {
    return config_.is_local(static_cast<int64_t>(layer)) ? views.local : views.global;
  }
  struct Saved {
    std::vector<Tensor> inputs;  // of each block, shaped like x
    Views views;
    std::optional<OutputRows> outputs;
  };
  /// The rows that a block's output has; null: all.
  const OutputRows* outputs_of(const Saved& saved, size_t block) const {
    return saved.outputs && block + 1 == blocks_.size() ? &*saved.outputs : nullptr;
  }
  Tensor block_forward(const StepContext& ctx, size_t i);
  UnitUse begin_use(const StepContext& ctx, size_t block, bool backward = false) const;
  void end_use(const StepContext& ctx, const UnitUse& use) const;

  ModelConfig config_;
  bool causal_;
  int first_layer_;
  const ParameterStore& store_;
  PositionBias position_bias_;
  const Tensor* attention_plane_ = nullptr;  // null if the model has none
  std::deque<Block> blocks_;
  size_t first_unit_ = 0;  // that of the first block
  UnitListener* units_ = nullptr;
  std::optional<Norm> final_norm_;
  InFlight<Saved> saved_;
};

/// Returns the mask of a batch: tokens attend within their own document.
AttentionMask mask_of(const TokenBatch& batch);

/// Returns the parts of a model's own mask that are no tensors, of layers with a window or of the
/// others. `causal`: that of the stack.
AttentionMask model_mask(const ModelConfig& config, bool causal, bool is_local);

/// Returns `ctx` for a pass over `batch`: activations have a row per token, which the tensor ranks
/// shard according to ctx.rows.
StepContext context_for(const StepContext& ctx, const TokenBatch& batch);

}  // namespace tessera
