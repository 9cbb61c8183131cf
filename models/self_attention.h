#pragma once

#include <string>

#include "core/ops/attention.h"
#include "models/key_value_cache.h"
#include "models/model_config.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/layers/row_parallel_linear.h"

namespace tessera {

/// Which positions see which, and by how much their queries and keys are turned.
struct Visibility {
  AttentionMask mask = {};
  Tensor rotary = {};  ///< (B × T, D) fp32, as of rotary_table(); undefined: they are not
};

/// Multi-head self-attention with its heads split over the tensor ranks: a column-parallel
/// projection to the queries, keys and values of this rank's heads, attention, and a row-parallel
/// projection back.
class SelfAttention {
 public:
  SelfAttention(ParameterStore& store, const std::string& name, const ModelConfig& config,
                int layer, Communicator& tp);

  /// x (B, T, C) → (B, T, C) without the output bias: both of all rows, or (1, n, C) of those that
  /// this rank holds (ctx.rows). Attention itself sees all. Keeps what backward reads.
  Tensor forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility);

  /// dy, shaped like x; dx, likewise, is written.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

  /// For generation, causal: x (B, T, C) are new positions after those in the cache; T is 1 unless
  /// the cache is empty. visibility.mask has no parts but causal and window.
  Tensor extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                const Visibility& visibility);

  /// The attention weights of the last forward pass: weights (B, Hl, T, T) fp32 of this rank's
  /// heads, zeros where hidden, without dropout.
  void weights(const StepContext& ctx, Tensor weights) const;

  Tensor output_bias() const { return output_.bias(); }

 private:
  struct Saved {
    Tensor qkv;          // (B, T, 3, Hl, D)
    Tensor out;          // (B, T, Hl, D)
    Tensor log_sum_exp;  // (B, Hl, T)
    Visibility visibility;
  };

  AttentionOptions options(const StepContext& ctx, const AttentionMask& mask) const;
  Tensor project(const StepContext& ctx, const Tensor& x, const Visibility& visibility);

  int layer_;
  int64_t total_heads_, local_heads_, first_head_, head_dim_;
  double dropout_;
  ColumnParallelLinear qkv_;
  RowParallelLinear output_;
  Saved saved_;
};

}  // namespace tessera
