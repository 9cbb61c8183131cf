#pragma once

#include "core/ops/matmul.h"
#include "core/ops/matrix.h"

namespace tessera::cpu {

/// out (M, N) = a (M, K) b (K, N) + bias (N), or out += a b; row after row in out. a, b and bias
/// have one dtype, out that one or fp32; sums in fp32. The only place that talks to oneDNN, 2.x
/// or 3.x. Where the processor or the library has no bf16 product, bf16 is widened and multiplied
/// in fp32.
void matmul(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor out,
            Accumulate accumulate);

}  // namespace tessera::cpu
