#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/dtype.h"
#include "core/ops/fp8.h"
#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {

/// The description of a cuBLASLt product, which tests modify before they choose an algorithm or run
/// it.
struct TestSizes {
  int64_t m = 16, n = 8, k = 24;
  bool transpose_a = false, transpose_b = false;
  int64_t padding = 0;  ///< elements between the columns of all matrices
  cudaDataType in = CUDA_R_32F, out = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

/// fp32, bf16 or E4M3 numbers that host and GPU can access.
class TestNumbers {
 public:
  TestNumbers(int64_t count, cudaDataType type, int seed)
      : type_(type), bytes_(static_cast<size_t>(count) * size()), data_(bytes_) {
    for (int64_t i = 0; i < count; ++i) {
      set(i, static_cast<float>((i * 37 + seed * 11) % 101) / 50.0f - 1.0f);
    }
  }

  char* get() const { return data_.get(); }
  size_t bytes() const { return bytes_; }
  double operator[](int64_t i) const {
    uint32_t bits = 0;
    std::memcpy(&bits, at(i), size());
    return std::bit_cast<float>(type_ == CUDA_R_32F ? bits : bits << 16);
  }

 private:
  size_t size() const {
    if (type_ == CUDA_R_8F_E4M3) return 1;
    return type_ == CUDA_R_32F ? sizeof(float) : sizeof(bfloat16);
  }
  char* at(int64_t i) const { return get() + static_cast<size_t>(i) * size(); }
  void set(int64_t i, float value) {
    if (type_ == CUDA_R_8F_E4M3) {
      *at(i) = static_cast<char>(fp8_code(value));
      return;
    }
    const bfloat16 half(value);
    std::memcpy(at(i), type_ == CUDA_R_32F ? static_cast<const void*>(&value) : &half, size());
  }

  cudaDataType type_;
  size_t bytes_;
  Visible<char> data_;
};

/// A product with its operands, its descriptors and everything needed to run it.
class TestProduct {
 public:
  explicit TestProduct(const TestSizes& sizes = {})
      : sizes_(sizes),
        a(lda() * a_cols(), sizes.in, 1),
        b(ldb() * b_cols(), sizes.in, 2),
        d(ldd() * sizes.n, sizes.out, 3),
        bias(std::max(sizes.m, sizes.n), sizes.out, 4),
        auxiliary(ldd() * sizes.n, sizes.out, 5),
        workspace(kWorkspace) {
    cublasLtCreate(&handle);
    cublasLtMatmulDescInit(&desc, sizes.compute, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_TRANSA, sizes.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, sizes.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    const auto describe = [](auto* layout, cudaDataType type, int64_t ld, int64_t cols,
                             int64_t padding) {
      cublasLtMatrixLayoutInit(layout, type, static_cast<uint64_t>(ld - padding),
                               static_cast<uint64_t>(cols), ld);
    };
    describe(&a_layout, sizes.in, lda(), a_cols(), sizes.padding);
    describe(&b_layout, sizes.in, ldb(), b_cols(), sizes.padding);
    describe(&d_layout, sizes.out, ldd(), sizes.n, sizes.padding);
    cublasLtMatmulPreferenceInit(&preference);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspace});
  }
  ~TestProduct() { cublasLtDestroy(handle); }
  TestProduct(const TestProduct&) = delete;
  TestProduct& operator=(const TestProduct&) = delete;

  template <typename T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof(value));
  }
  template <typename T>
  cublasStatus_t prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    return cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value));
  }

  /// Uses its own bias and auxiliary matrix.
  void set_epilogue(cublasLtEpilogue_t epilogue) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(bias.get()));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(auxiliary.get()));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ldd());
  }

  cublasStatus_t choose() {
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, &desc, &a_layout, &b_layout, &d_layout, &d_layout, &preference, 1, &choice, &found);
    EXPECT_EQ(found == 1, status == CUBLAS_STATUS_SUCCESS);
    return status;
  }

  /// Runs in place with the chosen algorithm. `a_at` and `d_at`, if given, replace the addresses of
  /// A and D.
  cublasStatus_t run(const void* a_at = nullptr, void* d_at = nullptr) {
    void* const out = d_at == nullptr ? d.get() : d_at;
    return cublasLtMatmul(handle, &desc, &alpha, a_at == nullptr ? a.get() : a_at, &a_layout,
                          b.get(), &b_layout, &beta, out, &d_layout, out, &d_layout, &choice.algo,
                          scratch, workspace_bytes, stream());
  }

  int64_t a_cols() const { return sizes_.transpose_a ? sizes_.m : sizes_.k; }
  int64_t b_cols() const { return sizes_.transpose_b ? sizes_.k : sizes_.n; }
  int64_t lda() const { return (sizes_.transpose_a ? sizes_.k : sizes_.m) + sizes_.padding; }
  int64_t ldb() const { return (sizes_.transpose_b ? sizes_.n : sizes_.k) + sizes_.padding; }
  int64_t ldd() const { return sizes_.m + sizes_.padding; }

  static constexpr size_t kWorkspace = 4096;

 private:
  TestSizes sizes_;

 public:
  TestNumbers a, b, d, bias, auxiliary;
  Visible<char> workspace;
  char* scratch = workspace.get();
  size_t workspace_bytes = kWorkspace;
  float alpha = 1.0f, beta = 0.0f;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a_layout, b_layout, d_layout;
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulHeuristicResult_t choice = {};
};

}  // namespace tessera::cuda
