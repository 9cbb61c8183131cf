#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "core/accumulate.h"
#include "core/ops/cuda/matmul/product_key.h"
#include "core/ops/device_ops.h"

/// Products by cuBLASLt beyond matmul() of core/ops/device_ops.inc.
namespace tessera::cuda {

/// matmul, and sums[m] += Σ_k a[m, k] or sums[m] = that sum, (M) fp32. a is the transpose of a
/// tensor that is stored by rows, and not empty.
void matmul_row_sums(const Matrix& a, const Matrix& b, Tensor out, Accumulate accumulate,
                     Tensor sums, Accumulate accumulate_sums);

/// Sets whether the calling thread's fp32 products use tensor cores, which truncate operands to
/// TF32 (fp32's range, 11 significant bits) and sum in fp32. Off at first.
void use_tf32(bool on);
bool uses_tf32();

/// Sets how many of the GPU's multiprocessors the calling thread's products leave to kernels that
/// run beside them, such as NCCL's: cuBLASLt then chooses algorithms for the others. At first none.
void leave_multiprocessors(int count);

/// Algorithms by the names of products (name_of()): the bytes of cuBLASLt's description, or "" for
/// the first of its heuristics.
using NamedAlgorithms = std::map<std::string, std::string>;

/// Times the first 32 algorithms of cuBLASLt's heuristics for each product (a dry run's, see
/// ProductLog), on the calling thread's GPU and stream, and adds the fastest to `choices`. Those
/// that are there already are kept if they run. `scratch` is memory of the GPU whose contents are
/// lost; products that need more are left out. Waits for the GPU. Returns the number of products
/// that were timed.
int64_t time_algorithms(std::span<const ProductKey> products, const Tensor& scratch,
                        NamedAlgorithms& choices);

/// Why the calling thread's GPU has no linear_fp8(); nothing if it has: Hopper with cuBLASLt 12.9
/// or later, whose scales of blocks these are.
std::optional<std::string> fp8_unsupported_reason();

/// The version of cuBLASLt, such as "13.0.2".
std::string cublaslt_version();

/// "NVIDIA H200 with 132 multiprocessors and cuBLASLt 13.0.2": choices of algorithms are valid only
/// between equals. A driver may give a process a part of the multiprocessors (MIG, MPS).
std::string algorithms_identity();

/// Makes the calling thread's products use these algorithms for `products`, and the first one for
/// every other product. Replaces those of an earlier call; {} means none. `choices` come from a
/// rank with the same algorithms_identity(). Algorithms sum in different orders, so ranks that must
/// compute the same bits need the same choices. CUDA graphs keep the algorithms with which they
/// were captured. Returns the number of products that use another algorithm than the first.
int64_t use_algorithms(std::span<const ProductKey> products, const NamedAlgorithms& choices);

/// y = bias or y += bias, (N) in each row of (M, N); y has bias's dtype or fp32. For products that
/// cuBLASLt cannot add a bias to, such as unaligned rows.
void add_bias(const Tensor& bias, Tensor y, Accumulate accumulate);

/// Whether matmul_gelu and matmul_gelu_backward support a product a b with this result. cuBLASLt's
/// GELU is the tanh approximation, precise enough for bf16, on rows that start at multiples of 16
/// bytes.
inline bool fuses_gelu(const Matrix& a, const Tensor& out, Activation kind) {
  return kind == Activation::gelu_tanh && out.dtype() == DType::bf16 && out.dim(-1) % 8 == 0 &&
         a.cols > 0 && out.numel() > 0;
}

/// hidden = a b + bias, active = gelu(hidden), both from the sums before rounding.
void matmul_gelu(const Matrix& a, const Matrix& b, const Tensor& bias, Tensor hidden,
                 Tensor active);

/// out = (a b) × gelu'(hidden), from the sums before rounding.
void matmul_gelu_backward(const Matrix& a, const Matrix& b, const Tensor& hidden, Tensor out);

}  // namespace tessera::cuda
