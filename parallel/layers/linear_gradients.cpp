#include "parallel/layers/linear_gradients.h"

#include "core/ops/matmul.h"
#include "core/ops/reduce.h"

namespace tessera {
namespace {

Tensor flat(const Tensor& tensor) { return tensor.view({tensor.numel()}); }

}  // namespace

void add_linear_gradients(const Tensor& dy, const Tensor& x, Parameter& weight, Parameter* bias) {
  const bool has_bias = bias != nullptr && !bias->frozen;
  if (weight.frozen) {
    if (has_bias) add_bias_gradient(dy, *bias);
    return;
  }
  const Tensor gradient = weight.grad().view({rows_of(weight.grad()), weight.grad().dim(-1)});
  const Accumulate accumulate = weight.next_accumulate();
  linear_backward_weight_bias(dy, x, gradient, accumulate, has_bias ? flat(bias->grad()) : Tensor(),
                              has_bias ? bias->next_accumulate() : Accumulate::no);
}

void add_bias_gradient(const Tensor& dy, Parameter& bias) {
  if (!bias.frozen) column_sum(dy, flat(bias.grad()), bias.next_accumulate());
}

}  // namespace tessera
