// Interprets a product's descriptors together, and knows the products that cuBLASLt documents.

#include <limits>

#include "tests/emulator/cublaslt/cublaslt.h"

namespace emulator::cublaslt {
namespace {

bool is_sound(const MatrixDesc& matrix) {
  return matrix.rows > 0 && matrix.cols > 0 && matrix.ld >= 0 &&
         static_cast<uint64_t>(matrix.ld) >= matrix.rows;
}

bool fits_int32(uint64_t value) { return value <= std::numeric_limits<int32_t>::max(); }

bool is_hopper() {
  int device = 0;
  cudaDeviceProp properties;
  cudaGetDevice(&device);
  return cudaGetDeviceProperties(&properties, device) == cudaSuccess && properties.major == 9;
}

/// Products of 8-bit codes with scales of blocks: only on Hopper, since 12.9, with both operands
/// contiguous along the sum. Dims must be multiples of 16; whether n, which is never contiguous,
/// must be is not documented. Epilogues are not, either.
bool are_listed_codes(const Problem& problem) {
  constexpr int64_t kMultiple = 16;
  constexpr auto kOf128 = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
  constexpr auto kOfBlocks = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  const ProductDesc& desc = problem.desc;
  const bool modes = (desc.a_scale_mode == kOf128 || desc.a_scale_mode == kOfBlocks) &&
                     (desc.b_scale_mode == kOf128 || desc.b_scale_mode == kOfBlocks) &&
                     (desc.a_scale_mode == kOf128 || desc.b_scale_mode == kOf128);
  bool multiples = true;
  for (const int64_t size : {problem.m, problem.n, problem.k, problem.a.ld, problem.b.ld}) {
    multiples = multiples && size % kMultiple == 0;
  }
  for (const float* scales : {desc.a_scales, desc.b_scales}) {
    multiples = multiples && alignment_of(reinterpret_cast<uintptr_t>(scales)) >= kMultiple;
  }
  return is_hopper() && cublasLtGetVersion() >= 120900 && modes && multiples &&
         desc.transpose_a == CUBLAS_OP_T && desc.transpose_b == CUBLAS_OP_N &&
         problem.has(CUBLASLT_EPILOGUE_DEFAULT);
}

/// The table in cublasLtMatmul's documentation, without types that Tessera does not use.
bool are_listed(const Problem& problem) {
  const cudaDataType_t in = problem.a.type, out = problem.d.type;
  if (problem.desc.scale != CUDA_R_32F || problem.b.type != in || problem.c.type != out) {
    return false;
  }
  switch (problem.desc.compute) {
    case CUBLAS_COMPUTE_32F:
      if (in == CUDA_R_8F_E4M3) {
        return (out == CUDA_R_16BF || out == CUDA_R_32F) && are_listed_codes(problem);
      }
      return in == CUDA_R_16BF ? out == CUDA_R_16BF || out == CUDA_R_32F
                               : in == CUDA_R_32F && out == CUDA_R_32F;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return in == CUDA_R_32F && out == CUDA_R_32F;
    default:
      return false;
  }
}

bool is_epilogue(const Problem& problem) {
  return problem.has(CUBLASLT_EPILOGUE_DEFAULT) || problem.has_vector() ||
         problem.has(CUBLASLT_EPILOGUE_GELU_AUX) || problem.has(CUBLASLT_EPILOGUE_DGELU);
}

/// Checks the operands of a documented epilogue.
cublasStatus_t support_epilogue(const Problem& problem) {
  // Undocumented; libraries on top of cuBLASLt are known to use 16 bytes.
  constexpr uint32_t kAlignment = 16;
  const ProductDesc& desc = problem.desc;
  if (problem.has_vector()) {
    if (desc.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    if (problem.bias_type() != problem.d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (alignment_of(reinterpret_cast<uintptr_t>(desc.bias)) < kAlignment) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  if (problem.has_auxiliary()) {
    constexpr int64_t kMultiple = 8;  // for GELU's input; a ReLU mask would need 128
    const bool is_wide = desc.auxiliary_ld >= problem.m && desc.auxiliary_ld % kMultiple == 0;
    if (desc.auxiliary == nullptr || !is_wide) return CUBLAS_STATUS_INVALID_VALUE;
    if (problem.auxiliary_type() != problem.d.type) return CUBLAS_STATUS_INVALID_VALUE;
    if (alignment_of(reinterpret_cast<uintptr_t>(desc.auxiliary)) < kAlignment) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  // According to NVIDIA's nvmath. Sums over rows of one column: only before cuBLASLt 12.3.4.
  const bool is_gradient =
      problem.has(CUBLASLT_EPILOGUE_BGRADB) || problem.has(CUBLASLT_EPILOGUE_DGELU);
  if (is_gradient && problem.k == 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

uint32_t alignment_of(uint64_t value) {
  constexpr uint64_t kMost = 256;
  value |= kMost;
  return static_cast<uint32_t>(value & (~value + 1));
}

size_t bytes_of(cudaDataType_t type) {
  if (type == CUDA_R_8F_E4M3) return 1;
  return type == CUDA_R_32F ? 4 : 2;
}

Scales scales_of(const MatrixDesc& matrix, int32_t mode, const float* data) {
  const auto cols = static_cast<int64_t>(matrix.cols), rows = static_cast<int64_t>(matrix.rows);
  const int64_t along = (rows + 127) / 128;
  if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F) {
    return {data, along * cols, 1, cols, /*of_columns=*/true};
  }
  const int64_t room = (along + 3) / 4 * 4;
  return {data, (cols + 127) / 128 * room, room, 1, /*of_columns=*/false};
}

size_t span_of(const MatrixDesc& matrix) {
  const uint64_t elements = (matrix.cols - 1) * static_cast<uint64_t>(matrix.ld) + matrix.rows;
  return elements * bytes_of(matrix.type);
}

MatrixDesc auxiliary_of(const Problem& problem) {
  MatrixDesc auxiliary = problem.d;
  auxiliary.type = problem.auxiliary_type();
  auxiliary.ld = problem.desc.auxiliary_ld;
  return auxiliary;
}

ReadProblem read_problem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                         cublasLtMatrixLayout_t d) {
  constexpr cublasStatus_t kInvalid = CUBLAS_STATUS_INVALID_VALUE;
  const auto product = unpack<ProductDesc>(desc);
  const auto first = unpack<MatrixDesc>(a), second = unpack<MatrixDesc>(b),
             added = unpack<MatrixDesc>(c), result = unpack<MatrixDesc>(d);
  if (!product || !first || !second || !added || !result) return {kInvalid, {}};
  for (const MatrixDesc& matrix : {*first, *second, *added, *result}) {
    if (!is_sound(matrix)) return {kInvalid, {}};
    if (!fits_int32(matrix.rows) || !fits_int32(matrix.cols)) {
      return {CUBLAS_STATUS_NOT_SUPPORTED, {}};
    }
  }
  for (const int32_t transpose : {product->transpose_a, product->transpose_b}) {
    if (transpose != CUBLAS_OP_N && transpose != CUBLAS_OP_T) return {kInvalid, {}};
  }
  const bool turns_a = product->transpose_a == CUBLAS_OP_T,
             turns_b = product->transpose_b == CUBLAS_OP_T;
  const uint64_t m = turns_a ? first->cols : first->rows, k = turns_a ? first->rows : first->cols,
                 k_of_b = turns_b ? second->cols : second->rows,
                 n = turns_b ? second->rows : second->cols;
  const auto is_result = [&](const MatrixDesc& matrix) {
    return matrix.rows == m && matrix.cols == n;
  };
  if (k != k_of_b || !is_result(*added) || !is_result(*result)) return {kInvalid, {}};
  return {CUBLAS_STATUS_SUCCESS,
          {*product, *first, *second, *added, *result, static_cast<int64_t>(m),
           static_cast<int64_t>(n), static_cast<int64_t>(k)}};
}

cublasStatus_t support(const Problem& problem) {
  if (!is_epilogue(problem)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool has_scales = problem.desc.a_scales != nullptr && problem.desc.b_scales != nullptr;
  if (problem.has_codes() && !has_scales) return CUBLAS_STATUS_INVALID_VALUE;
  if (!are_listed(problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (library_is("plain") && !problem.has(CUBLASLT_EPILOGUE_DEFAULT)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return support_epilogue(problem);
}

}  // namespace emulator::cublaslt
