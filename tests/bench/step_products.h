#pragma once

#include <vector>

#include "core/memory.h"
#include "launch/config/run_config.h"

namespace tessera::bench {

/// The matrix products of the linear layers of one micro-batch, in the step's order: forward, dx
/// and dw of each layer's four and of the head, in BERT for the masked tokens. Every layer has its
/// own weights, gradients and activations, so memory is read as in the step. Biases are omitted and
/// dw is overwritten: this is a lower bound for the products.
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

/// FLOPs of the matrix products of one micro-batch's forward and backward pass: the linear layers,
/// the head, and attention's two forward and four backward products, half of which GPT's causal
/// mask skips. Attention's recomputation is not counted.
double step_flops(const RunConfig& config);

}  // namespace tessera::bench
