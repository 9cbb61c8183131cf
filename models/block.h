#pragma once

#include <string>

#include "models/mlp.h"
#include "models/residual.h"
#include "models/self_attention.h"

namespace tessera {

/// A transformer block: attention, then an MLP, each in a residual branch (residual.h).
class Block {
 public:
  Block(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
        Gelu gelu, Communicator& tp);

  /// x (B, T, C) → (B, T, C) in ctx.arena; (1, n, C) where rows are split (ctx.rows).
  Tensor forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility);

  /// gradient, shaped like x: on entry that of the block's output, on return that of its input.
  void backward(const StepContext& ctx, Tensor gradient);

  /// For generation; see SelfAttention::extend.
  Tensor extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                const Visibility& visibility);

  const SelfAttention& attention() const { return attention_; }

 private:
  /// From what attention gave for x on.
  Tensor finish(const StepContext& ctx, const Tensor& branch, const Tensor& x);

  std::string name_, backward_name_;  // of the trace's ranges
  // In this order of declaration the flat buffers have a pre-norm block's order of the forward
  // pass.
  Residual attention_residual_;
  SelfAttention attention_;
  Residual mlp_residual_;
  Mlp mlp_;
};

}  // namespace tessera
