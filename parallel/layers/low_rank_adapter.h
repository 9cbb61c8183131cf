#pragma once

#include <cstdint>
#include <string>

#include "core/parameters/parameter.h"
#include "parallel/step_context.h"

namespace tessera {

/// The names of an adapter's matrices.
struct LowRankNames {
  std::string a, b;
};

LowRankNames low_rank_names(const std::string& layer);

/// Whether a parameter's name is that of an adapter's matrix.
bool is_of_low_rank_adapter(const std::string& parameter);

/// The adapter that a linear layer gets: none with rank 0.
struct LowRank {
  int64_t rank = 0;
  float scale = 1.0f;    ///< of what it adds
  double dropout = 0.0;  ///< probability, of its input
};

/// A low-rank addition to a linear layer (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
/// Models", 2021): y += scale × (dropout(x) Aᵀ) Bᵀ, with A (rank, in_features) and B (out_features,
/// rank), which starts as zeros. A has the layer's shard of the input and B that of the output. The
/// one that is replicated gets a part of its gradient on each tensor rank (partial_over): of a
/// column-parallel layer that is A, whose gradient comes through the local features; of a
/// row-parallel layer it is B, which multiplies the local part of x Aᵀ.
/// Each adapter draws its dropout from a stream of its own, by the index of the row in the batch
/// and of the global input feature. The dropped input is not stored: backward draws it again.
class LowRankAdapter {
 public:
  /// Declares A and B for a layer with this weight, (out, in) or (parts, out, in).
  LowRankAdapter(ParameterStore& store, const std::string& layer, const ParameterSpec& weight,
                 const LowRank& settings);

  /// Adds to y (..., N, local out_features), the layer's product with x (..., N, local
  /// in_features), both with all rows.
  void forward(const StepContext& ctx, const Tensor& x, const Tensor& y) const;

  /// Adds to dx, the layer's input gradient, and to the gradients of A and B. x is that of
  /// forward().
  void backward(const StepContext& ctx, const Tensor& dy, const Tensor& x, const Tensor& dx) const;

 private:
  Dropout dropout(const StepContext& ctx) const;
  Tensor reduced(const StepContext& ctx, const Tensor& x) const;
  Tensor b_matrix() const;

  std::string layer_;
  float scale_;
  double dropout_;
  Parameter* a_;  // (rank, in_features)
  Parameter* b_;  // (out_features, rank), or (parts, out_features, rank)
};

}  // namespace tessera
