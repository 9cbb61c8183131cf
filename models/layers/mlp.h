#pragma once

#include <string>

#include "models/model_config.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/layers/row_parallel_linear.h"

namespace tessera {

/// down(f(up(x))) or, if config.gated_mlp, down(f(gate(x)) × up(x)), with the inner width F sharded
/// over the tensor ranks. f is config.activation. Gate and up are one product. With
/// Architecture::inner_dropout, dropout precedes down.
class Mlp {
 public:
  Mlp(ParameterStore& store, const std::string& name, const ModelConfig& config, int layer,
      Communicator& tp);

  /// x (B, T, C) → (B, T, C), without the output bias. If rows are sharded (ctx.rows), both are the
  /// local rows (1, n, C).
  Tensor forward(const StepContext& ctx, const Tensor& x);

  /// Overwrites dx. dx and dy are shaped like x.
  void backward(const StepContext& ctx, const Tensor& dy, Tensor dx);

  Tensor output_bias() const { return down_.bias(); }

 private:
  /// Saves the hidden layer of x and returns the input of `down_`, (B, T, Fl).
  Tensor activated_up(const StepContext& ctx, const Tensor& x);
  Shape active_shape(const Tensor& hidden) const;  // (B, T, Fl)
  /// The input of `down_` from the saved hidden layer, with dropout.
  Tensor activated(const StepContext& ctx) const;

  /// The dropout of the input of `down_`, of this rank's columns.
  Dropout dropout(const StepContext& ctx) const;

  Activation activation_;
  bool gated_;
  double dropout_;
  int layer_;
  Range columns_;  // of this tensor rank
  int64_t total_columns_;
  ColumnParallelLinear up_;  // with the gate, its first part
  RowParallelLinear down_;
  InFlight<Tensor> hidden_;  // (B, T, Fl), or (B, T, 2 Fl) with the gate: before the activation
};

}  // namespace tessera
