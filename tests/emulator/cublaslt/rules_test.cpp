// Tests the cuBLASLt rules that its emulation checks.

#include "core/cuda/wait_check.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "tests/emulator/cublaslt/cublaslt.h"
#include "tests/emulator/cublaslt/test_product.h"

namespace tessera::cuda {
namespace {

constexpr auto kDone = CUBLAS_STATUS_SUCCESS;
constexpr auto kInvalid = CUBLAS_STATUS_INVALID_VALUE;
constexpr auto kNotSupported = CUBLAS_STATUS_NOT_SUPPORTED;

cublasStatus_t chosen(const TestSizes& sizes) { return TestProduct(sizes).choose(); }

cublasStatus_t chosen_with(cublasLtEpilogue_t epilogue, const TestSizes& sizes = {}) {
  TestProduct product(sizes);
  product.set_epilogue(epilogue);
  return product.choose();
}

TEST(CublasLtDescriptors, RefuseAttributesOfWrongSize) {
  TestProduct product;
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_TRANSA, int64_t{0}), kInvalid);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int32_t{16}), kInvalid);
  EXPECT_EQ(product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{16}), kDone);
  EXPECT_EQ(product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint32_t{0}), kInvalid);
  EXPECT_EQ(product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint64_t{16}), kInvalid);
  const int32_t transpose = CUBLAS_OP_T;
  cublasLtMatmulDescOpaque_t never = {};
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(&never, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 4),
            kInvalid);
}

TEST(CublasLtHeuristic, RefusesMismatchedMatrices) {
  TestProduct product;
  cublasLtMatrixLayoutInit(&product.a_layout, CUDA_R_32F, 16, 23, 16);
  EXPECT_EQ(product.choose(), kInvalid) << "a different k";
  cublasLtMatrixLayoutInit(&product.a_layout, CUDA_R_32F, 16, 24, 15);
  EXPECT_EQ(product.choose(), kInvalid) << "overlapping columns";
  cublasLtMatrixLayoutInit(&product.a_layout, CUDA_R_32F, 16, 24, 20);
  EXPECT_EQ(product.choose(), kDone);
  product.a_layout = {};
  EXPECT_EQ(product.choose(), kInvalid) << "an uninitialized layout";
}

TEST(CublasLtHeuristic, SupportsDocumentedTypes) {
  const auto types = [](cudaDataType in, cudaDataType out, cublasComputeType_t compute) {
    TestSizes sizes;
    sizes.in = in;
    sizes.out = out;
    sizes.compute = compute;
    return chosen(sizes);
  };
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F), kDone);
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F), kDone);
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F), kDone);
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32), kDone);
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_16BF, CUBLAS_COMPUTE_32F), kNotSupported);
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32), kNotSupported);
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_16F), kNotSupported);
}

TEST(CublasLtHeuristic, RefusesBiasOfOtherType) {
  TestProduct product({.in = CUDA_R_16BF});
  product.set_epilogue(CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(product.choose(), kDone);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
  EXPECT_EQ(product.choose(), kNotSupported);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(product.bias.get() + 4));
  EXPECT_EQ(product.choose(), kNotSupported) << "a bias aligned to 4 bytes";
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(nullptr));
  EXPECT_EQ(product.choose(), kInvalid) << "no bias";
}

TEST(CublasLtHeuristic, RefusesInvalidAuxiliaryMatrix) {
  TestProduct product;
  product.set_epilogue(CUBLASLT_EPILOGUE_GELU_AUX);
  EXPECT_EQ(product.choose(), kDone);
  for (const int64_t ld : {8, 20, 0}) {
    product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    EXPECT_EQ(product.choose(), kInvalid) << ld;
  }
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{24});
  EXPECT_EQ(product.choose(), kDone);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, CUDA_R_16BF);
  EXPECT_EQ(product.choose(), kInvalid) << "a type other than the result's";
  EXPECT_EQ(chosen_with(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, {.m = 12}), kInvalid);
  EXPECT_EQ(chosen_with(static_cast<cublasLtEpilogue_t>(2)), kInvalid) << "not emulated";
}

TEST(CublasLtHeuristic, RefusesGradientEpiloguesForSingleTerm) {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_BGRADB, CUBLASLT_EPILOGUE_DGELU}) {
    EXPECT_EQ(chosen_with(epilogue), kDone);
    EXPECT_EQ(chosen_with(epilogue, {.k = 1}), kNotSupported);
  }
}

TEST(CublasLtHeuristic, RefusesImpossibleAlignments) {
  TestProduct product;
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{12});
  EXPECT_EQ(product.choose(), kInvalid);
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{2});
  EXPECT_EQ(product.choose(), kNotSupported) << "half an fp32 element";
}

/// A product of codes that Hopper supports.
class CodesProduct : public TestProduct {
 public:
  explicit CodesProduct(const TestSizes& sizes = kSizes) : TestProduct(sizes), scales(4096) {
    set_scales(CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
               CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<void*>(scales.get()));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<void*>(scales.get() + 1024));
  }
  void set_scales(int32_t of_a, int32_t of_b) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, of_a);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, of_b);
  }

  static constexpr TestSizes kSizes = {
      .m = 48, .n = 16, .k = 256, .transpose_a = true, .in = CUDA_R_8F_E4M3, .out = CUDA_R_16BF};
  Visible<char> scales;
};

TEST(CublasLtHeuristic, SupportsCodesAsHopper) {
  constexpr int32_t kScalar = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
                    kRows = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                    kBlocks = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  const auto modes = [](int32_t of_a, int32_t of_b) {
    CodesProduct product;
    product.set_scales(of_a, of_b);
    return product.choose();
  };
  EXPECT_EQ(modes(kBlocks, kRows), kDone);
  EXPECT_EQ(modes(kRows, kBlocks), kDone);
  EXPECT_EQ(modes(kRows, kRows), kDone);
  EXPECT_EQ(modes(kBlocks, kBlocks), kNotSupported);
  EXPECT_EQ(modes(kScalar, kScalar), kNotSupported) << "not emulated";
  const auto with = [](auto change) {
    TestSizes sizes = CodesProduct::kSizes;
    change(sizes);
    return CodesProduct(sizes).choose();
  };
  EXPECT_EQ(with([](TestSizes& s) { s.out = CUDA_R_32F; }), kDone);
  EXPECT_EQ(with([](TestSizes& s) { s.transpose_a = false; }), kNotSupported);
  EXPECT_EQ(with([](TestSizes& s) { s.transpose_b = true; }), kNotSupported);
  EXPECT_EQ(with([](TestSizes& s) { s.m = 40; }), kNotSupported);
  EXPECT_EQ(with([](TestSizes& s) { s.n = 17; }), kNotSupported);
  EXPECT_EQ(with([](TestSizes& s) { s.padding = 8; }), kNotSupported);
  CodesProduct product;
  product.set_epilogue(CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(product.choose(), kNotSupported) << "not documented";
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(product.choose(), kDone);
  EXPECT_EQ(fp8_unsupported_reason(), std::nullopt);
  for (const auto& [variable, value] : {std::pair("TESSERA_EMULATOR_CAPABILITY", "8.0"),
                                        {"TESSERA_EMULATOR_CAPABILITY", "10.0"},
                                        {"TESSERA_EMULATOR_CUBLASLT_VERSIONS", "120803"}}) {
    const Environment other(variable, value);
    EXPECT_EQ(product.choose(), kNotSupported) << variable;
    EXPECT_NE(fp8_unsupported_reason(), std::nullopt) << variable;
  }
  product.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<void*>(product.scales.get() + 4));
  EXPECT_EQ(product.choose(), kNotSupported) << "unaligned scales";
  product.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<void*>(nullptr));
  EXPECT_EQ(product.choose(), kInvalid) << "no scales";
}

TEST(CublasLtMatmulDeathTest, NeedsAllScales) {
  CodesProduct product;
  ASSERT_EQ(product.choose(), kDone);
  EXPECT_EQ(product.run(), kDone);
  synchronize();
  // A product of 16 rows and two blocks has 32 scales.
  product.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
              static_cast<void*>(product.scales.get() + 4096 - 64));
  EXPECT_DEATH(product.run(), "B's scales has 128 bytes, but its block of memory ends after 64");
}

TEST(CublasLtAlgorithm, SupportsItsKindUpToItsSizes) {
  TestProduct product, smaller({.n = 7}), larger({.n = 9}), other({.transpose_b = true});
  ASSERT_EQ(product.choose(), kDone);
  for (TestProduct* each : {&smaller, &larger, &other}) each->choice = product.choice;
  EXPECT_EQ(product.run(), kDone);
  EXPECT_EQ(smaller.run(), kDone);
  EXPECT_EQ(larger.run(), kNotSupported);
  EXPECT_EQ(other.run(), kInvalid);
  product.choice.algo = {};
  EXPECT_EQ(product.run(), kInvalid) << "no algorithm";
  const Environment exact("TESSERA_EMULATOR_CUBLASLT", "exact");
  EXPECT_EQ(smaller.run(), kNotSupported);
}

TEST(CublasLtAlgorithm, RefusesLessAlignedColumns) {
  TestProduct product, odd({.m = 15});
  ASSERT_EQ(product.choose(), kDone);
  odd.choice = product.choice;
  EXPECT_EQ(odd.run(), kNotSupported);
}

TEST(CublasLtAlgorithm, NeedsRequestedWorkspace) {
  TestProduct product;
  ASSERT_EQ(product.choose(), kDone);
  ASSERT_GT(product.choice.workspaceSize, 0u);
  product.workspace_bytes = product.choice.workspaceSize - 1;
  EXPECT_EQ(product.run(), kInvalid);
  product.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{0});
  ASSERT_EQ(product.choose(), kDone);
  EXPECT_EQ(product.choice.workspaceSize, 0u);
}

TEST(CublasLtMatmulDeathTest, NeedsGpuMemory) {
  TestProduct product;
  ASSERT_EQ(product.choose(), kDone);
  alignas(256) float on_the_host[16 * 24];
  EXPECT_DEATH(product.run(on_the_host),
               "emulated GPU: cublasLtMatmul: A is not in a GPU's memory");
  EXPECT_DEATH(product.run(product.a.get() + 256),
               "A has 1536 bytes, but its block of memory ends after 1280");
  product.set_epilogue(CUBLASLT_EPILOGUE_BIAS);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(on_the_host));
  ASSERT_EQ(product.choose(), kDone) << "the heuristic checks only its alignment";
  EXPECT_DEATH(product.run(), "the bias is not in a GPU's memory");
}

TEST(CublasLtMatmulDeathTest, NeedsAlignedSeparateWorkspace) {
  TestProduct product;
  ASSERT_EQ(product.choose(), kDone);
  product.workspace_bytes = product.choice.workspaceSize;
  product.scratch += 8;
  EXPECT_DEATH(product.run(), "the workspace is aligned to 8 bytes, but .* for 16");
  product.scratch = product.d.get();
  EXPECT_DEATH(product.run(), "overlaps the workspace");
}

TEST(CublasLtMatmulDeathTest, RefusesPendingCudaError) {
  const Environment lazy("TESSERA_EMULATOR_LAZY", "1");
  TestProduct product;
  ASSERT_EQ(product.choose(), kDone);
  ASSERT_EQ(product.run(), kDone);
  ASSERT_EQ(cudaStreamQuery(stream()), cudaErrorNotReady);
  EXPECT_DEATH(product.run(), "CUDA's last error is still cudaErrorNotReady");
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(product.run(), kDone);
  const WaitCheck watch([] {});
  synchronize();  // polls until it is done
  EXPECT_EQ(product.run(), kDone);
  release(allocate(1));  // as does this
  EXPECT_EQ(product.run(), kDone);
  synchronize();
}

TEST(CublasLtMatmulDeathTest, NeedsPromisedAlignment) {
  TestProduct product;
  product.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t{16});
  ASSERT_EQ(product.choose(), kDone);
  const Visible<char> longer(2000);
  EXPECT_EQ(product.run(longer.get() + 16), kDone);
  EXPECT_DEATH(product.run(longer.get() + 8),
               "A is aligned to 8 bytes, but its algorithm was chosen for 16");
}

TEST(CublasLtMatmulDeathTest, OutputMustNotOverlapInputs) {
  TestProduct product;
  ASSERT_EQ(product.choose(), kDone);
  EXPECT_DEATH(product.run(nullptr, product.b.get()), "D, which is written, overlaps B");
  product.set_epilogue(CUBLASLT_EPILOGUE_GELU_AUX);
  product.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(product.d.get()));
  ASSERT_EQ(product.choose(), kDone);
  EXPECT_DEATH(product.run(), "D, which is written, overlaps the auxiliary matrix");
}

TEST(CublasLtMatmulDeathTest, InPlaceResultNeedsOneLayout) {
  TestProduct product;
  ASSERT_EQ(product.choose(), kDone);
  cublasLtMatrixLayoutOpaque_t padded;
  cublasLtMatrixLayoutInit(&padded, CUDA_R_32F, 16, 7, 20);
  cublasLtMatrixLayoutInit(&product.b_layout, CUDA_R_32F, 24, 7, 24);
  cublasLtMatrixLayoutInit(&product.d_layout, CUDA_R_32F, 16, 7, 16);
  EXPECT_DEATH(cublasLtMatmul(product.handle, &product.desc, &product.alpha, product.a.get(),
                              &product.a_layout, product.b.get(), &product.b_layout, &product.alpha,
                              product.d.get(), &padded, product.d.get(), &product.d_layout,
                              &product.choice.algo, product.workspace.get(),
                              product.workspace_bytes, stream()),
               "C is D, but their layouts differ");
}

TEST(CublasLtHandleDeathTest, MustExistOnCallingThreadsGpu) {
  const Environment devices("TESSERA_EMULATOR_DEVICES", "2");
  cudaSetDevice(0);
  TestProduct product;
  EXPECT_DEATH(
      {
        cudaSetDevice(1);
        product.choose();
      },
      "cublasLtMatmulAlgoGetHeuristic: the handle belongs to GPU 0, but the thread's is 1");
  EXPECT_DEATH(
      {
        cublasLtDestroy(product.handle);
        product.choose();
      },
      "the handle does not exist");
}

TEST(CublasLtHandle, NeedsAGpu) {
  const Environment devices("TESSERA_EMULATOR_DEVICES", "0");
  cublasLtHandle_t handle = nullptr;
  EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
}

}  // namespace
}  // namespace tessera::cuda
