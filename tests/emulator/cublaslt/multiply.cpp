// The products, computed only from their descriptors. Columns in memory are rows for the CPU's
// library, which therefore computes Dᵀ = op(B)ᵀ op(A)ᵀ.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/memory.h"
#include "core/ops/device_ops.h"
#include "tests/emulator/cublaslt/cublaslt.h"

namespace emulator::cublaslt {
namespace {

using tessera::DType;
using tessera::kCpu;
using tessera::Matrix;
using tessera::MatrixLayout;
using tessera::OwnedTensor;
using tessera::Tensor;

DType dtype_of(cudaDataType_t type) { return type == CUDA_R_32F ? DType::f32 : DType::bf16; }

/// Returns columns [first, first + count) as rows of a tensor: one column, or any number if the
/// matrix is packed.
Tensor columns(const MatrixDesc& matrix, const void* data, int64_t first, int64_t count) {
  const size_t offset = static_cast<size_t>(first * matrix.ld) * bytes_of(matrix.type);
  auto* begin = static_cast<std::byte*>(const_cast<void*>(data)) + offset;
  const tessera::Shape shape{count, static_cast<int64_t>(matrix.rows)};
  return {begin, shape, dtype_of(matrix.type), kCpu};
}

bool is_packed(const MatrixDesc& matrix) { return static_cast<uint64_t>(matrix.ld) == matrix.rows; }

/// Copies between a matrix and a tensor (cols, rows) of any types.
template <typename Copy>
void for_columns(const MatrixDesc& matrix, const void* data, const Tensor& tensor, Copy copy) {
  const auto cols = static_cast<int64_t>(matrix.cols), step = is_packed(matrix) ? cols : 1;
  for (int64_t i = 0; i < cols; i += step) {
    copy(columns(matrix, data, i, step), tensor.slice(i, i + step));
  }
}
void load(const MatrixDesc& matrix, const void* data, const Tensor& tensor) {
  for_columns(matrix, data, tensor,
              [](const Tensor& from, const Tensor& to) { tessera::cpu::copy(from, to); });
}
void store(const Tensor& tensor, const MatrixDesc& matrix, void* data) {
  for_columns(matrix, data, tensor,
              [](const Tensor& to, const Tensor& from) { tessera::cpu::copy(from, to); });
}
OwnedTensor loaded(const MatrixDesc& matrix, const void* data, DType dtype) {
  OwnedTensor copy({static_cast<int64_t>(matrix.cols), static_cast<int64_t>(matrix.rows)}, dtype);
  load(matrix, data, copy.tensor);
  return copy;
}

/// Rounds to the nearest TF32 number, which drops 13 bits of fp32's fraction. Ties round away from
/// zero.
float round_to_tf32(float value) {
  const auto u = std::bit_cast<uint32_t>(value);
  const bool is_finite = (u & 0x7f800000u) != 0x7f800000u;
  return is_finite ? std::bit_cast<float>((u + 0x1000u) & ~0x1fffu) : value;
}

/// The number of an E4M3 code, by the definition of the format.
float e4m3_value(uint8_t code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  const int significand = exponent == 0 ? fraction : 8 + fraction;
  const auto size = static_cast<float>(std::ldexp(significand, std::max(exponent, 1) - 10));
  return (code & 0x80) != 0 ? -size : size;
}

OwnedTensor decoded(const MatrixDesc& matrix, const void* data, const Scales& scales) {
  const auto cols = static_cast<int64_t>(matrix.cols), rows = static_cast<int64_t>(matrix.rows);
  OwnedTensor result({cols, rows}, DType::f32);
  const auto* codes = static_cast<const uint8_t*>(data);
  auto* to = result.tensor.data<float>();
  for (int64_t i = 0; i < cols; ++i) {
    for (int64_t j = 0; j < rows; ++j) {
      to[i * rows + j] = e4m3_value(codes[i * matrix.ld + j]) * scales.of(i, j);
    }
  }
  return result;
}

/// A or B as tensor cores read it.
class Operand {
 public:
  Operand(const Problem& problem, const MatrixDesc& matrix, const void* data, int32_t transpose,
          const Scales& scales)
      : transposed_(transpose == CUBLAS_OP_T) {
    if (matrix.type == CUDA_R_8F_E4M3) {
      copy_ = decoded(matrix, data, scales);
      tensor_ = copy_.tensor;
      return;
    }
    const bool cut = problem.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    tensor_ = columns(matrix, data, 0, static_cast<int64_t>(matrix.cols));
    if (is_packed(matrix) && !cut) return;
    copy_ = loaded(matrix, data, dtype_of(matrix.type));
    tensor_ = copy_.tensor;
    if (!cut) return;
    const auto values = tensor_.span<float>();
    std::transform(values.begin(), values.end(), values.begin(), round_to_tf32);
  }

  /// op(X)ᵀ.
  Matrix matrix() const {
    const int64_t cols = tensor_.dim(0), rows = tensor_.dim(1);
    return transposed_ ? Matrix{tensor_, rows, cols, MatrixLayout::columns}
                       : Matrix{tensor_, cols, rows, MatrixLayout::rows};
  }

 private:
  bool transposed_;
  OwnedTensor copy_;
  Tensor tensor_;
};

Tensor bias_of(const Problem& problem) {
  if (!problem.adds_bias()) return {};
  return {problem.desc.bias, {problem.m}, dtype_of(problem.bias_type()), kCpu};
}

/// Returns whether the CPU's library rounds these sums only once, at the end.
bool is_one_product(const Problem& problem, const Operands& at) {
  if (problem.has_codes() && problem.d.type != CUDA_R_32F) return false;
  const bool plain = problem.has(CUBLASLT_EPILOGUE_DEFAULT) ||
                     problem.has(CUBLASLT_EPILOGUE_BGRADB) ||
                     (problem.has(CUBLASLT_EPILOGUE_BIAS) && problem.bias_type() == problem.a.type);
  const bool adds =
      at.beta == 1.0f && at.c == at.d && problem.d.type == CUDA_R_32F && !problem.adds_bias();
  return plain && is_packed(problem.d) && at.alpha == 1.0f && (at.beta == 0.0f || adds);
}

void scale_and_add(const Problem& problem, const Operands& at, const Tensor& sums) {
  if (at.alpha == 1.0f && at.beta == 0.0f) return;
  const auto values = sums.span<float>();
  for (float& value : values) value *= at.alpha;
  if (at.beta == 0.0f) return;
  const OwnedTensor added = loaded(problem.c, at.c, DType::f32);
  const auto addends = added.tensor.span<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] += at.beta * addends[i];
}

/// Whether an algorithm that splits the sums rounds their total to the result's type before the
/// epilogue, as seen in cuBLASLt 13.1 on an H200 (its algorithm 24 with 16 parts).
bool rounds_before_epilogue(const Problem& problem) {
  return problem.d.type == CUDA_R_16BF && !problem.has(CUBLASLT_EPILOGUE_DEFAULT) &&
         !problem.has(CUBLASLT_EPILOGUE_BGRADB);
}

void round_to_bf16(const Tensor& sums) {
  const OwnedTensor rounded(sums.shape(), DType::bf16);
  tessera::cpu::copy(sums, rounded.tensor);
  tessera::cpu::copy(rounded.tensor, sums);
}

void add_bias(const Problem& problem, const Tensor& sums) {
  if (!problem.adds_bias()) return;
  const OwnedTensor wide({problem.m}, DType::f32);
  tessera::cpu::copy(bias_of(problem), wide.tensor);
  const auto values = sums.span<float>(), bias = wide.tensor.span<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] += bias[i % bias.size()];
}

void apply_gelu(const Problem& problem, const Tensor& sums) {
  if (!problem.has_auxiliary()) return;
  const MatrixDesc auxiliary = auxiliary_of(problem);
  if (problem.has(CUBLASLT_EPILOGUE_DGELU)) {
    const OwnedTensor input = loaded(auxiliary, problem.desc.auxiliary, DType::f32);
    return tessera::cpu::activation_backward(sums, input.tensor, tessera::Activation::gelu_tanh,
                                             sums);
  }
  store(sums, auxiliary, problem.desc.auxiliary);
  tessera::cpu::activation_forward(sums, tessera::Activation::gelu_tanh, sums);
}

/// Σ_k op(B)[k, j] over the values in memory, before operands are rounded.
void sum_second_operand(const Problem& problem, const void* b) {
  if (!problem.has(CUBLASLT_EPILOGUE_BGRADB)) return;
  const OwnedTensor operand = loaded(problem.b, b, DType::f32);
  const auto values = operand.tensor.span<float>();
  const auto rows = static_cast<size_t>(problem.b.rows);
  const bool transposed = problem.desc.transpose_b == CUBLAS_OP_T;
  std::vector<double> sums(static_cast<size_t>(problem.n));
  for (size_t i = 0; i < values.size(); ++i) sums[transposed ? i % rows : i / rows] += values[i];
  const OwnedTensor rounded({problem.n}, DType::f32);
  std::transform(sums.begin(), sums.end(), rounded.tensor.span<float>().begin(),
                 [](double sum) { return static_cast<float>(sum); });
  tessera::cpu::copy(rounded.tensor,
                     {problem.desc.bias, {problem.n}, dtype_of(problem.bias_type()), kCpu});
}

}  // namespace

void multiply(const Problem& problem, const Operands& at, bool splits) {
  using tessera::Accumulate;
  sum_second_operand(problem, at.b);
  const ProductDesc& desc = problem.desc;
  const Operand a(problem, problem.a, at.a, desc.transpose_a,
                  scales_of(problem.a, desc.a_scale_mode, desc.a_scales)),
      b(problem, problem.b, at.b, desc.transpose_b,
        scales_of(problem.b, desc.b_scale_mode, desc.b_scales));
  const bool rounds_first = splits && rounds_before_epilogue(problem);
  if (is_one_product(problem, at) && !rounds_first) {
    return tessera::cpu::matmul(b.matrix(), a.matrix(), bias_of(problem),
                                columns(problem.d, at.d, 0, problem.n),
                                at.beta == 1.0f ? Accumulate::yes : Accumulate::no);
  }
  const OwnedTensor sums({problem.n, problem.m}, DType::f32);
  tessera::cpu::matmul(b.matrix(), a.matrix(), {}, sums.tensor, Accumulate::no);
  scale_and_add(problem, at, sums.tensor);
  if (rounds_first) round_to_bf16(sums.tensor);
  add_bias(problem, sums.tensor);
  apply_gelu(problem, sums.tensor);
  store(sums.tensor, problem.d, at.d);
}

}  // namespace emulator::cublaslt
