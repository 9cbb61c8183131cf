#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ops/activation.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/in_flight.h"
#include "parallel/layers/low_rank_adapter.h"
#include "parallel/step_context.h"

namespace tessera {

/// A linear layer with its global sizes.
struct LinearSpec {
  std::string name;
  int64_t in_features = 0;
  int64_t out_features = 0;
  /// Number of stacked matrices (out_features, in_features): 3 for the joint projection to queries,
  /// keys and values. Each is sharded over the ranks.
  int64_t parts = 1;
  bool bias = true;
  float init_stddev = 0.02f;
  /// Neighboring features that stay on one rank: those of a head or of a group of heads. Ranks may
  /// have unequal numbers of such units, or none.
  int64_t unit = 1;
  LowRank adapter = {};  ///< what is added to a column- or row-parallel layer
  /// The features of a unit that are of each matrix (WeightMatrices::unit_rows); empty: all of one.
  std::vector<int64_t> unit_rows = {};
  WidthRole role = WidthRole::hidden;  ///< of the weight
  double width_mult = 1.0;             ///< see ParameterSpec
};

/// The features of a linear layer on one tensor rank.
struct FeatureShard {
  Range local;
  int64_t largest;  ///< the number on the rank with the most
};

/// Splits `features`, whose units are those of `spec`.
FeatureShard split_features(const LinearSpec& spec, int64_t features, const Communicator& tp);

/// y = x Wᵀ + b with W's rows, and so y's features, sharded over the tensor ranks as evenly as the
/// units allow. It enters a
/// tensor region: x has the n local rows (ctx.rows), y has all N rows and stays sharded by
/// features.
class ColumnParallelLinear {
 public:
  ColumnParallelLinear(ParameterStore& store, const LinearSpec& spec, Communicator& tp);

  /// x (..., n, in_features) → y (..., N, parts × local features) in ctx.arena. Stores x for
  /// backward.
  Tensor forward(const StepContext& ctx, const Tensor& x);

  /// Like forward(), but returns y as `hidden` and f(hidden) as `active`, both in ctx.arena.
  struct Activated {
    Tensor hidden, active;
  };
  Activated forward_activation(const StepContext& ctx, const Tensor& x, Activation f);

  /// dy (..., N, parts × local features). Overwrites dx (..., n, in_features) with the sum over
  /// the tensor ranks; accumulates into the gradients of W and b.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

 private:
  Tensor bias_vector() const;
  Tensor allocate_output(const StepContext& ctx, const Tensor& x) const;

  Communicator& tp_;
  Parameter*
      weight_;  // (parts, out_features, in_features), or (out_features, in_features) if parts = 1
  Parameter* bias_ = nullptr;  // (parts, out_features), or (out_features)
  std::optional<LowRankAdapter> adapter_;
  InFlight<Tensor> x_;
};

}  // namespace tessera
