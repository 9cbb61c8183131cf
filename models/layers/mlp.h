#pragma once

#include <string>

#include "core/ops/gelu.h"
#include "models/model_config.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/layers/row_parallel_linear.h"

namespace tessera {

/// down(gelu(up(x))), with the inner width F sharded over the tensor ranks.
class Mlp {
 public:
  Mlp(ParameterStore& store, const std::string& name, const ModelConfig& config, Gelu gelu,
      Communicator& tp);

  /// x (B, T, C) → (B, T, C), without the output bias. If rows are sharded (ctx.rows), both are the
  /// local rows (1, n, C).
  Tensor forward(const StepContext& ctx, const Tensor& x);

  /// Overwrites dx. dx and dy are shaped like x.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

  Tensor output_bias() const { return down_.bias(); }

 private:
  /// gelu(hidden_) (B, T, Fl).
  Tensor activated(const StepContext& ctx) const;

  Gelu gelu_;
  ColumnParallelLinear up_;
  RowParallelLinear down_;
  Tensor hidden_;  // (B, T, Fl), before GELU
};

}  // namespace tessera
