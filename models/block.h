#pragma once

#include <string>

#include "models/mlp.h"
#include "models/norm.h"
#include "models/self_attention.h"

namespace tessera {

/// A pre-norm transformer block:
///   a = x + dropout(attention(norm(x)) + b₁),   y = a + dropout(mlp(norm(a)) + b₂).
class Block {
 public:
  Block(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
        Gelu gelu, Communicator& tp);

  /// x (B, T, C) → (B, T, C) in ctx.arena.
  Tensor forward(const StepContext& ctx, const Tensor& x, const AttentionMask& mask);

  /// gradient (B, T, C): on entry that of the block's output, on return that of its input.
  void backward(const StepContext& ctx, Tensor gradient);

  /// For generation; see SelfAttention::extend.
  Tensor extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache);

 private:
  Tensor residual_sum(const StepContext& ctx, const Tensor& branch, const Tensor& bias,
                      const Tensor& residual, RandomPurpose purpose) const;
  Tensor mlp_half(const StepContext& ctx, const Tensor& attended);

  /// One half of backward: through the dropout, the branch and its norm, onto the residual.
  template <typename Branch>
  void backward_half(const StepContext& ctx, Norm& norm, Branch& branch, RandomPurpose purpose,
                     Tensor gradient) const;

  int layer_;
  double dropout_;
  Norm attention_norm_;
  SelfAttention attention_;
  Norm mlp_norm_;
  Mlp mlp_;
};

}  // namespace tessera
