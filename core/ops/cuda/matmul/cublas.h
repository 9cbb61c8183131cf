#pragma once

#include <cublasLt.h>

#include <utility>

#include "core/error.h"
#include "core/ops/cuda/matmul/product_key.h"
#include "core/ops/cuda/workspace_sizes.h"

/// Descriptors of a product for cuBLASLt. Used by matmul.cpp and algorithms.cpp.
namespace tessera::cuda {

inline void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail("{} failed on the GPU: {} ({})", what, cublasLtGetStatusString(status),
       cublasLtGetStatusName(status));
}

inline cudaDataType_t cuda_type(DType dtype) {
  if (dtype == DType::u8) return CUDA_R_8F_E4M3;
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

inline cublasComputeType_t compute_type(const ProductKey& key) {
  return key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

inline cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_backward:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::row_sums:
      return CUBLASLT_EPILOGUE_BGRADB;  // our first operand is its second, transposed
  }
  fail("an epilogue that there is not");
}

struct OperandPointers {
  const void* vector;  ///< a bias, in the type of the operands, or sums, in that of the result
  const void* auxiliary;
  const void* a_scales = nullptr;  ///< of codes
  const void* b_scales = nullptr;
};

// cuBLASLt 12.9's attributes, for older headers; an older library refuses them.
inline constexpr auto kFirstScaleMode = static_cast<cublasLtMatmulDescAttributes_t>(31);
inline constexpr auto kSecondScaleMode = static_cast<cublasLtMatmulDescAttributes_t>(32);
inline constexpr int32_t kScaleOf128 = 4, kScaleOf128x128 = 5;

/// cuBLAS stores matrices by columns. There our output is (N, M), the product of bᵀ (N, K) and aᵀ
/// (K, M), and a matrix that is stored by rows already is its transpose.
class Descriptors {
 public:
  Descriptors(const ProductKey& key, OperandPointers pointers) {
    check(cublasLtMatmulDescInit(&product_, compute_type(key), CUDA_R_32F),
          "cublasLtMatmulDescInit");
    set(CUBLASLT_MATMUL_DESC_TRANSA,
        key.b_layout == MatrixLayout::rows ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB,
        key.a_layout == MatrixLayout::rows ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(key.epilogue));
    if (key.multiprocessors != 0) {
      set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, key.multiprocessors);
    }
    if (pointers.vector != nullptr) {
      const DType dtype = key.epilogue == Epilogue::row_sums ? key.out : key.in;
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.vector);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(dtype));
    }
    if (pointers.auxiliary != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.auxiliary);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.n);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, cuda_type(key.out));
    }
    if (key.in == DType::u8) {
      set(kFirstScaleMode, kScaleOf128x128);
      set(kSecondScaleMode, kScaleOf128);
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, pointers.b_scales);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, pointers.a_scales);
    }
    describe(b_, key.k, key.n, key.b_layout, key.in);
    describe(a_, key.m, key.k, key.a_layout, key.in);
    describe(out_, key.m, key.n, MatrixLayout::rows, key.out);
  }

  cublasLtMatmulDesc_t product() { return &product_; }
  cublasLtMatrixLayout_t first() { return &b_; }
  cublasLtMatrixLayout_t second() { return &a_; }
  cublasLtMatrixLayout_t out() { return &out_; }

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    check(cublasLtMatmulDescSetAttribute(&product_, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }

  static void describe(cublasLtMatrixLayoutOpaque_t& matrix, int64_t rows, int64_t cols,
                       MatrixLayout layout, DType dtype) {
    if (layout == MatrixLayout::rows) std::swap(rows, cols);
    check(cublasLtMatrixLayoutInit(&matrix, cuda_type(dtype), static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(cols), rows),
          "cublasLtMatrixLayoutInit");
  }

  cublasLtMatmulDescOpaque_t product_;
  cublasLtMatrixLayoutOpaque_t a_, b_, out_;
};

class Preference {
 public:
  explicit Preference(const ProductKey& key) {
    check(cublasLtMatmulPreferenceInit(&preference_), "cublasLtMatmulPreferenceInit");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kCublasLtWorkspaceBytes});
    // Partial sums are added in fp32 and in one order. With an epilogue, cuBLASLt 13.1 rounds that
    // sum to bf16 first.
    const bool rounds_twice = key.epilogue != Epilogue::none && key.out == DType::bf16;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(rounds_twice ? CUBLASLT_REDUCTION_SCHEME_NONE
                                           : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(attribute, uint32_t{key.alignment});
    }
  }

  cublasLtMatmulPreference_t get() { return &preference_; }

 private:
  template <typename T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference_, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  }

  cublasLtMatmulPreferenceOpaque_t preference_;
};

}  // namespace tessera::cuda
