#pragma once

#include <string>

#include "core/ops/attention.h"
#include "models/key_value_cache.h"
#include "models/model_config.h"
#include "parallel/column_parallel_linear.h"
#include "parallel/row_parallel_linear.h"

namespace tessera {

/// Multi-head self-attention with its heads split over the tensor ranks: a column-parallel
/// projection to the queries, keys and values of this rank's heads, attention, and a row-parallel
/// projection back.
class SelfAttention {
 public:
  SelfAttention(ParameterStore& store, const std::string& name, const ModelConfig& config,
                int layer, Communicator& tp);

  /// x (B, T, C) → (B, T, C), whole on every rank and without the output bias. Keeps what backward
  /// reads.
  Tensor forward(const StepContext& ctx, const Tensor& x, const AttentionMask& mask);

  /// dy (B, T, C); dx (B, T, C) is written.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

  /// For generation, causal: x (B, T, C) are new positions after those in the cache; T is 1 unless
  /// the cache is empty.
  Tensor extend(const StepContext& ctx, const Tensor& x, KeyValueCache& cache);

  Tensor output_bias() const { return output_.bias(); }

 private:
  struct Saved {
    Tensor qkv;          // (B, T, 3, Hl, D)
    Tensor out;          // (B, T, Hl, D)
    Tensor log_sum_exp;  // (B, Hl, T)
    AttentionMask mask;
  };

  AttentionOptions options(const StepContext& ctx, const AttentionMask& mask) const;
  Tensor project(const StepContext& ctx, const Tensor& x);

  int layer_;
  int64_t total_heads_, local_heads_, first_head_, head_dim_;
  double dropout_;
  ColumnParallelLinear qkv_;
  RowParallelLinear output_;
  Saved saved_;
};

}  // namespace tessera
