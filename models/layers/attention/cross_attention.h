#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/layers/attention/context_attention.h"
#include "models/layers/attention/local_heads.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/layers/row_parallel_linear.h"

namespace tessera {

/// The encoder's output for the sources of a batch, which the cross-attention of all decoder layers
/// reads.
struct EncodedSource {
  PaddedRows padded_rows;   ///< of the source tokens
  SequenceShard rows;       ///< the same
  Tensor states;            ///< (1, n, C), the local rows
  Tensor documents;         ///< (S + 1), cumulative lengths of the sources, of all context ranks
  Tensor target_documents;  ///< (S + 1), the same of the decoder's rows, of this one
  const ContextCut* cut = nullptr;  ///< of the source tokens; null: they are whole
  /// Shaped like `states`: the backward pass of each layer adds its gradient. Undefined without a
  /// backward pass.
  Tensor gradient = {};
  /// For generation: the keys and values of each layer, (1, Ns, 2 Kl, D), instead of `states`.
  std::vector<Tensor> key_values = {};

  /// The context of a pass over the source, from that over the decoder's rows.
  StepContext context(const StepContext& ctx) const;
};

/// Attention of the decoder's tokens to the source of their document, with heads sharded over the
/// tensor ranks: column-parallel projections of the decoder's rows to queries and of the source's
/// rows to keys and values, attention, and a row-parallel projection back.
class CrossAttention {
 public:
  CrossAttention(ParameterStore& store, const std::string& name, const ModelConfig& config,
                 int layer, Communicator& tp);

  /// x (B, T, C) → (B, T, C), without the output bias; source.target_documents delimits the B × T
  /// rows. If rows are sharded, both are the local rows (1, n, C). `source` must live until
  /// backward.
  Tensor forward(const StepContext& ctx, const Tensor& x, const EncodedSource& source);

  /// The keys and values of a source, (1, Ns, 2 Kl, D).
  Tensor project(const StepContext& ctx, const EncodedSource& source);

  /// Overwrites dx, and adds to source.gradient. dx and dy are shaped like x.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

  /// Computes the attention weights (1, Hl, N, Ns) fp32 of the last forward pass for the local
  /// heads. Sources of other documents have weight 0; dropout is not applied.
  void weights(const StepContext& ctx, Tensor weights) const;

  Tensor output_bias() const { return output_.bias(); }

 private:
  struct Saved {
    Tensor queries;      // (1, N, Hl, D)
    Tensor key_values;   // (1, Ns, 2 Kl, D), of this context rank
    Tensor out;          // (1, N, Hl, D)
    Tensor log_sum_exp;  // (1, Hl, N)
    const EncodedSource* source = nullptr;
  };

  /// `key_values` (1, Ns, 2 Kl, D) are those of all context ranks.
  AttentionOptions options(const StepContext& ctx, const Tensor& key_values) const;
  /// Starts to gather the keys and values of all context ranks; nullopt if all are here.
  std::optional<ContextRows> gather_keys(const StepContext& ctx) const;
  /// Waits for them.
  Tensor gathered_keys(std::optional<ContextRows>& rows) const;

  LocalHeads heads_;
  ColumnParallelLinear query_, key_value_;
  RowParallelLinear output_;
  InFlight<Saved> saved_;
};

}  // namespace tessera
