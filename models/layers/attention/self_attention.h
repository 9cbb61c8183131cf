#pragma once

#include <string>

#include "core/ops/attention.h"
#include "core/ops/query_groups.h"
#include "models/layers/attention/key_value_cache.h"
#include "models/layers/attention/local_heads.h"
#include "models/model_config.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/layers/row_parallel_linear.h"

namespace tessera {

struct EncodedSource;
struct OutputRows;

/// The attention mask of a pass, and how its attention knows positions.
struct Visibility {
  AttentionMask mask = {};
  Tensor rotary = {};         ///< (B × T, D) fp32, see rotary_table(); undefined: no rotation
  Tensor position_bias = {};  ///< (Hl, 2R − 1) fp32, see AttentionOptions; undefined: no bias
  /// Shaped like position_bias: the backward pass of each layer adds its gradient. Undefined if the
  /// bias is not learned.
  Tensor dposition_bias = {};
  const EncodedSource* source = nullptr;  ///< of cross-attention, see there
  /// (N) int32, of the rows within their documents; undefined unless the batch is cut.
  Tensor positions = {};
  /// Whether the window of the mask lets queries see keys of ContextCut::halo alone.
  bool sees_halo = false;
};

/// Multi-head or grouped-query self-attention (Ainslie et al., "GQA", 2023) with heads sharded over
/// the tensor ranks: a column-parallel projection to the queries, keys and values of the local
/// heads, attention, and a row-parallel projection back.
class SelfAttention {
 public:
  SelfAttention(ParameterStore& store, const std::string& name, const ModelConfig& config,
                int layer, Communicator& tp);

  /// x (B, T, C) → (B, T, C), without the output bias. If rows are sharded (ctx.rows), both are the
  /// local rows (1, n, C); attention itself sees all rows, and of a batch that is cut (ctx.cut) the
  /// keys of all context ranks. Saves what backward needs. With
  /// `outputs`, which must live until backward, returns only their local rows (1, r, C).
  Tensor forward(const StepContext& ctx, const Tensor& x, const Visibility& visibility,
                 const OutputRows* outputs = nullptr);

  /// Overwrites dx. dx is shaped like x, dy like the output.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

  /// For causal generation: x (B, T, C) are the positions that follow the cache. T is 1 unless the
  /// cache is empty. visibility.mask has parts that attention_decode supports.
  Tensor extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache,
                const Visibility& visibility);

  /// Computes the attention weights (B, Hl, T, T) fp32 of the last forward pass for the local
  /// heads. Hidden keys have weight 0; dropout is not applied. Not of a batch that was cut.
  void weights(const StepContext& ctx, Tensor weights) const;

  Tensor output_bias() const { return output_.bias(); }

 private:
  struct Saved {
    Tensor grouped;      // (B, T, Kl, G + 2, D), before QK norm; undefined without it
    Tensor rstd;         // (B × T × Kl, G + 1), of QK norm
    Tensor qkv;          // (B, T, Hl + 2 Kl, D)
    Tensor out;          // (B, T, Hl, D)
    Tensor log_sum_exp;  // (B, Hl, T)
    Visibility visibility;
    const OutputRows* outputs = nullptr;  // null: all rows
  };

  QueryKeyNorm norm() const { return {query_norm_->value(), key_norm_->value(), norm_eps_}; }
  /// dout (B, T, Hl × D) from dy, and the gradients of the projection back.
  void output_backward(const StepContext& ctx, const Tensor& dy, const Tensor& dout);
  /// dgrouped from dqkv, and the gradients of QK norm.
  void groups_backward(const StepContext& ctx, const Tensor& dqkv, const Tensor& dgrouped);
  /// (B, T, Kl, G + 2, D), as in query_groups.h, for queries, keys and values (B, T, Hl + 2 Kl, D).
  Shape grouped_shape(const Shape& qkv) const;
  AttentionOptions options(const StepContext& ctx, const Visibility& visibility) const;
  /// The queries, keys and values (B, T, Hl + 2 Kl, D) of x, rotated.
  Tensor project(const StepContext& ctx, const Tensor& x, const Visibility& visibility);

  LocalHeads heads_;
  bool is_grouped_;  // whether the projection's rows are groups
  float norm_eps_;
  ColumnParallelLinear qkv_;
  Parameter *query_norm_ = nullptr, *key_norm_ = nullptr;  // (D), of QK norm
  RowParallelLinear output_;
  InFlight<Saved> saved_;
};

}  // namespace tessera
