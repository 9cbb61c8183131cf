#pragma once

#include <vector>

#include "core/memory.h"
#include "launch/config/run_config.h"

namespace tessera::bench {

/// The matrix products of the linear layers of one micro-batch, in the step's order: forward, dx
/// and dw of each layer's four and of the head, which in BERT is that of the masked tokens. Every
/// layer has weights, gradients and activations of its own, so memory is read as in the step.
/// Biases are left out and dw is overwritten: this is the least that the products can take.
class StepProducts {
 public:
  explicit StepProducts(const RunConfig& config);

  void run();

 private:
  struct Linear {
    OwnedTensor x, w, y, dw;  // (M, K), (N, K), (M, N), (N, K)
  };

  void forward(const Linear& linear) const;
  void backward(const Linear& linear) const;

  std::vector<Linear> linears_;
  OwnedTensor dx_;
};

/// FLOPs of the matrix products of one micro-batch's forward and backward pass: those of the linear
/// layers and the head, and attention's two forward and four backward, of which GPT's
/// causal mask leaves half. What attention's backward computes again is not counted.
double step_flops(const RunConfig& config);

}  // namespace tessera::bench
