#pragma once

#include <vector>

#include "core/ops/attention.h"
#include "launch/train/optimizer/gradient_clip.h"
#include "launch/train/optimizer/optimizer.h"
#include "models/model.h"
#include "tests/bench/bench_run.h"

namespace tessera::bench {

/// The parts of a step besides matrix products. Each function makes all calls of its op in a step
/// of one micro-batch, on as many and as large tensors.
class StepParts {
 public:
  explicit StepParts(const RunConfig& config);

  void embedding_forward_part();
  void embedding_backward_part();
  void norm_forward_part();
  void norm_backward_part();
  void attention_forward_part();
  void attention_backward_part();
  void activation_forward_part();
  void activation_backward_part();
  void residual_part();
  void bias_gradient_part();
  void loss_part();
  void zero_gradients_part() { store_.zero_grads(); }
  void gradient_norm_part() { clip_->scale(1, {loss_sums_.tensor}); }
  void optimizer_part() { optimizer_->step(0, 1e-4, grad_scale_.tensor); }

 private:
  struct Layer {
    OwnedTensor qkv, attended, log_sum_exp;  // (B, T, 3 H, D), (B, T, H, D), (B, H, T)
    OwnedTensor x, y, mean, rstd;            // (B, T, C), (B, T, C), (B × T), (B × T)
    OwnedTensor hidden, active;              // (B, T, F)
  };

  RunConfig config_;
  std::unique_ptr<Communicator> self_;
  ParallelGroups groups_;
  ParameterStore store_;
  Model model_;
  std::unique_ptr<GradientClip> clip_;
  std::unique_ptr<OptimizerState> state_;
  std::unique_ptr<Optimizer> optimizer_;
  AttentionOptions attention_;
  std::vector<Layer> layers_;
  OwnedTensor tokens_, positions_;              // (B, T)
  OwnedTensor logits_, statistics_, loss_sum_;  // (B × T, V), (3, B × T), (1)
  OwnedTensor gradient_, dqkv_, dhidden_;       // (B, T, C), as qkv, (B, T, F)
  OwnedTensor vector_, sums_;                   // (F) in the step's precision, (F) fp32
  OwnedTensor loss_sums_, grad_scale_;          // (LossSums::kCount) fp64, (1) fp32
};

}  // namespace tessera::bench
