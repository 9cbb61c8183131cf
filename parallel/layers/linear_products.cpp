#include "parallel/layers/linear_products.h"

#include "core/ops/fp8.h"
#include "core/ops/matmul.h"

namespace tessera {
namespace {

/// (N, K): the leading dims of a joint weight (parts, out, in) are flattened.
Tensor matrix_of(const Parameter& weight) {
  const Tensor& value = weight.value();
  return value.view({rows_of(value), value.dim(-1)});
}

Fp8Matrix quantized_rows(Arena& arena, const Tensor& x) {
  const Fp8Matrix result{arena.allocate(fp8_row_codes(x), DType::u8),
                         arena.allocate(fp8_row_scales(x), DType::f32)};
  quantize_fp8_rows(x, result);
  return result;
}

/// y = x w'ᵀ + bias, where w' is w or its transpose.
void product_of_codes(Arena& arena, const Tensor& x, const Tensor& w, MatrixLayout layout,
                      const Tensor& bias, const Tensor& y) {
  const Arena::Scope scope(arena);
  const bool by_rows = layout == MatrixLayout::rows;
  const int64_t n = w.dim(by_rows ? 0 : 1), k = w.dim(by_rows ? 1 : 0);
  const Fp8Matrix weights{arena.allocate({n, k}, DType::u8),
                          arena.allocate(fp8_weight_scales(n, k), DType::f32)};
  quantize_fp8_weights(w, layout, weights);
  linear_fp8(quantized_rows(arena, x), weights, bias, y);
}

}  // namespace

void forward_product(Arena& arena, const Tensor& x, const Parameter& weight, const Tensor& bias,
                     const Tensor& y) {
  const Tensor w = matrix_of(weight);
  if (!weight.fp8) return linear_forward(x, w, bias, y);
  product_of_codes(arena, x, w, MatrixLayout::rows, bias, y);
}

void activation_product(Arena& arena, const Tensor& x, const Parameter& weight, const Tensor& bias,
                        Activation kind, const Tensor& hidden, const Tensor& active) {
  if (!weight.fp8) {
    return linear_activation_forward(x, matrix_of(weight), bias, kind, hidden, active);
  }
  forward_product(arena, x, weight, bias, hidden);
  activation_forward(hidden, kind, active);
}

void input_gradient(Arena& arena, const Tensor& dy, const Parameter& weight, const Tensor& dx) {
  const Tensor w = matrix_of(weight);
  if (!weight.fp8) return linear_backward_input(dy, w, dx);
  product_of_codes(arena, dy, w, MatrixLayout::columns, {}, dx);
}

void activation_input_gradient(Arena& arena, const Tensor& dy, const Parameter& weight,
                               const Tensor& hidden, Activation kind, const Tensor& dhidden) {
  if (!weight.fp8) {
    return linear_activation_backward_input(dy, matrix_of(weight), hidden, kind, dhidden);
  }
  input_gradient(arena, dy, weight, dhidden);
  activation_backward(dhidden, hidden, kind, dhidden);
}

}  // namespace tessera
