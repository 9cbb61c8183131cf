#pragma once

#include <string>

#include "core/ops/gelu.h"
#include "core/parameters/parameter.h"
#include "parallel/communicators/communicator.h"
#include "parallel/step_context.h"

namespace tessera {

/// What a linear layer is, whole.
struct LinearSpec {
  std::string name;
  int64_t in_features = 0;
  int64_t out_features = 0;
  /// How many matrices (out_features, in_features) stand one after the other: 3 for the joint
  /// projection to queries, keys and values, whose every part is split over the ranks.
  int64_t parts = 1;
  bool bias = true;
  float init_stddev = 0.02f;
};

/// y = x Wᵀ + b with W's rows, and so y's features, split over the tensor ranks: where a tensor
/// region is entered. Of x a rank has what it holds outside of it, n rows (ctx.rows); y has all N
/// rows and stays split by features.
class ColumnParallelLinear {
 public:
  ColumnParallelLinear(ParameterStore& store, const LinearSpec& spec, Communicator& tp);

  /// x (..., n, in_features) → y (..., N, parts × out_features / tp) in ctx.arena. Keeps x.
  Tensor forward(const StepContext& ctx, const Tensor& x);

  /// As forward(), to y = hidden and gelu(hidden), both in ctx.arena.
  struct Activated {
    Tensor hidden, active;
  };
  Activated forward_gelu(const StepContext& ctx, const Tensor& x, Gelu kind);

  /// dy (..., N, ·). dx (..., n, in_features) is written (the sum over the tensor ranks), the
  /// gradients of W and b are added to.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

 private:
  Tensor weight_matrix(const Tensor& local) const;
  Tensor bias_vector() const;
  Tensor allocate_output(const StepContext& ctx, const Tensor& x) const;

  Communicator& tp_;
  Parameter* weight_;          // (parts, out_features, in_features), or without the first dim
  Parameter* bias_ = nullptr;  // (parts, out_features), likewise
  Tensor x_;
};

}  // namespace tessera
