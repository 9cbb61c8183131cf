// Compares the results of cuBLASLt's emulation with textbook loops over the descriptors.

#include <cmath>

#include "tests/emulator/cublaslt/cublaslt.h"
#include "tests/emulator/cublaslt/test_product.h"

namespace tessera::cuda {
namespace {

/// op(A) op(B), in double precision.
std::vector<double> sums_of(const TestProduct& product, const TestSizes& sizes) {
  std::vector<double> sums;
  for (int64_t j = 0; j < sizes.n; ++j) {
    for (int64_t i = 0; i < sizes.m; ++i) {
      double sum = 0.0;
      for (int64_t l = 0; l < sizes.k; ++l) {
        const double a =
            product.a[sizes.transpose_a ? l + i * product.lda() : i + l * product.lda()];
        const double b =
            product.b[sizes.transpose_b ? j + l * product.ldb() : l + j * product.ldb()];
        sum += a * b;
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// The error of numbers up to 32 that are rounded once.
double tolerance(cudaDataType type) { return type == CUDA_R_32F ? 2e-5 : 32 * 0x1p-9; }

void expect_near(const TestProduct& product, const TestSizes& sizes, const TestNumbers& actual,
                 const std::vector<double>& expected) {
  for (int64_t j = 0; j < sizes.n; ++j) {
    for (int64_t i = 0; i < sizes.m; ++i) {
      ASSERT_NEAR(actual[i + j * product.ldd()], expected[static_cast<size_t>(i + j * sizes.m)],
                  tolerance(sizes.out))
          << "row " << i << ", column " << j;
    }
  }
}

std::vector<TestSizes> layouts() {
  std::vector<TestSizes> all;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int64_t padding : {0, 8}) {
        for (const auto& [in, out] :
             {std::pair(CUDA_R_32F, CUDA_R_32F), std::pair(CUDA_R_16BF, CUDA_R_16BF),
              std::pair(CUDA_R_16BF, CUDA_R_32F)}) {
          all.push_back({16, 9, 24, transpose_a, transpose_b, padding, in, out});
        }
      }
    }
  }
  return all;
}

class CublasLtProduct : public testing::TestWithParam<TestSizes> {
 protected:
  const TestSizes sizes = GetParam();
  TestProduct product{sizes};

  void run(cublasLtReductionScheme_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE) {
    product.prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(reduction));
    ASSERT_EQ(product.choose(), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(product.run(), CUBLAS_STATUS_SUCCESS);
  }
  double bias(size_t i) const { return product.bias[static_cast<int64_t>(i) % sizes.m]; }
};

TEST_P(CublasLtProduct, AppliesAlphaAndBeta) {
  const TestNumbers before(sizes.n * product.ldd(), sizes.out, 3);
  for (const auto& [alpha, beta] : {std::pair(1.0f, 0.0f), {1.0f, 1.0f}, {2.0f, -0.5f}}) {
    std::memcpy(product.d.get(), before.get(), before.bytes());
    product.alpha = alpha;
    product.beta = beta;
    run();
    std::vector<double> expected = sums_of(product, sizes);
    for (int64_t at = 0; at < sizes.m * sizes.n; ++at) {
      double& value = expected[static_cast<size_t>(at)];
      value = alpha * value + beta * before[at % sizes.m + at / sizes.m * product.ldd()];
    }
    expect_near(product, sizes, product.d, expected);
  }
}

TEST_P(CublasLtProduct, AddsBiasToEachRow) {
  product.set_epilogue(CUBLASLT_EPILOGUE_BIAS);
  run();
  std::vector<double> expected = sums_of(product, sizes);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias(i);
  expect_near(product, sizes, product.d, expected);
}

// Seen in cuBLASLt 13.1 on an H200: with parts of the sums in a workspace, a bias is added to their
// rounded total.
TEST_P(CublasLtProduct, RoundsSplitSumsBeforeTheBias) {
  run();
  const TestNumbers& sums = product.d;
  std::vector<double> expected;
  for (int64_t i = 0; i < sizes.m * sizes.n; ++i) {
    expected.push_back(sums[i % sizes.m + i / sizes.m * product.ldd()]);
    expected.back() += bias(static_cast<size_t>(i));
  }
  product.set_epilogue(CUBLASLT_EPILOGUE_BIAS);
  run(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  expect_near(product, sizes, product.d, expected);
  if (sizes.out == CUDA_R_32F) return;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    EXPECT_EQ(product.d[at % sizes.m + at / sizes.m * product.ldd()],
              static_cast<float>(bfloat16(static_cast<float>(expected[i]))));
  }
}

TEST_P(CublasLtProduct, StoresGeluInput) {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) {
    product.set_epilogue(epilogue);
    run();
    std::vector<double> expected = sums_of(product, sizes);
    if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias(i);
    }
    expect_near(product, sizes, product.auxiliary, expected);
    for (double& value : expected) value = gelu(value);
    expect_near(product, sizes, product.d, expected);
  }
}

TEST_P(CublasLtProduct, MultipliesByGeluSlope) {
  product.set_epilogue(CUBLASLT_EPILOGUE_DGELU);
  run();
  std::vector<double> expected = sums_of(product, sizes);
  for (int64_t at = 0; at < sizes.m * sizes.n; ++at) {
    const int64_t place = at % sizes.m + at / sizes.m * product.ldd();
    expected[static_cast<size_t>(at)] *= gelu_slope(product.auxiliary[place]);
  }
  expect_near(product, sizes, product.d, expected);
}

TEST_P(CublasLtProduct, SumsSecondOperand) {
  product.set_epilogue(CUBLASLT_EPILOGUE_BGRADB);
  run();
  expect_near(product, sizes, product.d, sums_of(product, sizes));
  for (int64_t j = 0; j < sizes.n; ++j) {
    double sum = 0.0;
    for (int64_t l = 0; l < sizes.k; ++l) {
      sum += product.b[sizes.transpose_b ? j + l * product.ldb() : l + j * product.ldb()];
    }
    EXPECT_NEAR(product.bias[j], sum, tolerance(sizes.out));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, CublasLtProduct, testing::ValuesIn(layouts()));

TEST(CublasLtProducts, RoundOperandsToTf32) {
  TestSizes sizes;
  sizes.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  TestProduct product(sizes), plain;
  for (TestProduct* each : {&product, &plain}) {
    ASSERT_EQ(each->choose(), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(each->run(), CUBLAS_STATUS_SUCCESS);
  }
  double most = 0.0;
  for (int64_t i = 0; i < sizes.m * sizes.n; ++i) {
    most = std::max(most, std::abs(product.d[i] - plain.d[i]));
  }
  EXPECT_GT(most, 1e-4);
  EXPECT_LT(most, 24 * 0x1p-10);
}

TEST(CublasLtProducts, OverwriteWorkspace) {
  TestProduct product;
  ASSERT_EQ(product.choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(product.run(), CUBLAS_STATUS_SUCCESS);
  const auto used = static_cast<int64_t>(product.choice.workspaceSize);
  EXPECT_NE(product.workspace[used - 1], 0);
  EXPECT_EQ(product.workspace[used], 0) << "more than the requested workspace was written";
}

TEST(CublasLtProducts, RunInStreamOrder) {
  const Environment lazy("TESSERA_EMULATOR_LAZY", "1");
  TestProduct product;
  const double before = product.d[0];
  ASSERT_EQ(product.choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(product.run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.d[0], before);
  synchronize();
  EXPECT_NE(product.d[0], before);
}

}  // namespace
}  // namespace tessera::cuda
