#pragma once

#include "core/ops/matmul.h"
#include "core/ops/matrix.h"

namespace tessera::cuda {

/// As cpu::matmul, by cuBLASLt: out (M, N) = a (M, K) b (K, N) + bias (N), or out += a b; row after
/// row in out. a, b and bias have one dtype, out that one or fp32; sums in fp32, fp32 products in
/// full fp32, but for use_tf32().
void matmul(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
            Accumulate accumulate);

/// As matmul, and sums[m] += Σ_k a[m, k], fp32 (M): a is the transpose of a tensor that lies row
/// after row, and not empty.
void matmul_row_sums(const Matrix& a, const Matrix& b, Tensor out, Accumulate accumulate,
                     Tensor sums);

/// Whether the calling thread's products of fp32 run on tensor cores from now on: those cut their
/// operands to TF32, fp32's range with 11 significant bits, and add up in fp32. At first they do
/// not.
void use_tf32(bool on);

/// y = bias or y += bias, (N) in each row of (M, N), of one dtype or y of fp32: where cuBLASLt has
/// no product with a bias, as for rows that are not aligned.
void add_bias(const Tensor& bias, Tensor y, Accumulate accumulate);

/// Whether the next two take a product a b with this result: cuBLASLt's GELU is the tanh one,
/// precise enough for bf16, on rows that start at multiples of 16 bytes.
inline bool fuses_gelu(const Matrix& a, const Tensor& out, Gelu kind) {
  return kind == Gelu::tanh && out.dtype() == DType::bf16 && out.dim(-1) % 8 == 0 && a.cols > 0 &&
         out.numel() > 0;
}

/// hidden = a b + bias, active = gelu(hidden), of the sums before they are rounded.
void matmul_gelu(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor hidden,
                 Tensor active);

/// out = (a b) × gelu'(hidden), of the sums before they are rounded.
void matmul_gelu_backward(const Matrix& a, const Matrix& b, const Tensor& hidden, Tensor out);

}  // namespace tessera::cuda
