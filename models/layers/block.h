#pragma once

#include <optional>
#include <string>

#include "models/layers/attention/cross_attention.h"
#include "models/layers/attention/self_attention.h"
#include "models/layers/mlp.h"
#include "models/layers/residual.h"

namespace tessera {

/// A transformer block: attention, cross-attention if it is a decoder's beside an encoder, then an
/// MLP, each in a residual branch (residual.h).
class Block {
 public:
  Block(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
        bool has_cross_attention, Communicator& tp);

  /// x (B, T, C) → (B, T, C) in ctx.arena. If rows are sharded (ctx.rows): (1, n, C), the local
  /// rows. With `outputs`, which must live until backward, computes only their local rows (1, r, C)
  /// behind attention; not for a block with cross-attention.
  Tensor forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility,
                 const OutputRows* outputs = nullptr);

  /// Replaces the gradient of the block's output by that of its input. Shaped like x.
  void backward(const StepContext& ctx, ResidualGradient& gradient);
  /// After a pass with `outputs`: sets `gradient`, shaped like x, to that of the block's input,
  /// given that of its output, which it overwrites.
  void backward(const StepContext& ctx, const OutputRows& outputs, ResidualGradient& of_outputs,
                ResidualGradient& gradient);

  /// For generation; see SelfAttention::extend.
  Tensor extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                const Visibility& visibility);

  const SelfAttention& attention() const { return attention_; }
  CrossAttention* cross_attention() { return cross_ ? &cross_->attention : nullptr; }
  const CrossAttention* cross_attention() const { return cross_ ? &cross_->attention : nullptr; }

 private:
  /// The rest of the block after attention, whose output is `branch`.
  Tensor finish(const StepContext& ctx, const Tensor& branch, const Tensor& x,
                const Visibility& visibility);

  struct Cross {
    Cross(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
          Communicator& tp);

    Residual residual;
    CrossAttention attention;
  };

  Communicator& tp_;
  std::string name_, backward_name_;  // names of trace ranges
  // Declared in the forward order of a pre-norm block, because this is the order of the flat
  // buffers.
  Residual attention_residual_;
  SelfAttention attention_;
  std::optional<Cross> cross_;
  Residual mlp_residual_;
  Mlp mlp_;
};

}  // namespace tessera
