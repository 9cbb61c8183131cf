// Tests how core/ops/cuda/matmul/matmul.cpp chooses algorithms, and how it replaces missing
// epilogues.

#include "core/ops/cuda/matmul/fusions.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/matmul.h"
#include "tests/emulator/cublaslt/cublaslt.h"
#include "tests/emulator/cublaslt/test_product.h"

namespace tessera::cuda {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

/// A tensor that host and GPU can access.
class TestTensor {
 public:
  TestTensor(const Shape& shape, DType dtype, int seed = 0)
      : numbers_(shape.numel(), dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF, seed),
        tensor(numbers_.get(), shape, dtype, kGpu) {}

  double operator[](int64_t i) const { return numbers_[i]; }

 private:
  TestNumbers numbers_;

 public:
  const Tensor tensor;
};

void expect_close(const TestTensor& actual, const TestTensor& expected, double tolerance) {
  for (int64_t i = 0; i < actual.tensor.numel(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
  }
}

/// The four products of a layer with `rows` rows and GELU, and how many of them were one cuBLASLt
/// call with an epilogue.
struct Layer {
  explicit Layer(int64_t row_count, DType dtype = DType::bf16)
      : rows(row_count),
        x({rows, 32}, dtype, 1),
        w({24, 32}, dtype, 2),
        bias({24}, dtype, 3),
        dy({rows, 24}, dtype, 4),
        y({rows, 24}, dtype),
        hidden({rows, 24}, dtype),
        active({rows, 24}, dtype),
        dhidden({rows, 32}, dtype),
        dw({24, 32}, DType::f32, 5),
        dbias({24}, DType::f32, 6) {
    const int64_t before = fused();
    linear_forward(x.tensor, w.tensor, bias.tensor, y.tensor);
    linear_activation_forward(x.tensor, w.tensor, bias.tensor, Activation::gelu_tanh, hidden.tensor,
                              active.tensor);
    linear_activation_backward_input(dy.tensor, w.tensor, x.tensor, Activation::gelu_tanh,
                                     dhidden.tensor);
    linear_backward_weight_bias(dy.tensor, x.tensor, dw.tensor, Accumulate::yes, dbias.tensor);
    fused_products = fused() - before;
  }

  static int64_t fused() {
    int64_t sum = 0;
    for (const auto epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_BGRADB}) {
      sum += emulator::cublaslt::products_with(epilogue);
    }
    return sum;
  }

  void expect_near(const Layer& other) const {
    // Sums of 32 products of numbers up to 1, rounded to bf16 once or twice.
    constexpr double kTwice = 2 * 16 * 0x1p-8;
    expect_close(y, other.y, kTwice);
    expect_close(hidden, other.hidden, kTwice);
    expect_close(active, other.active, kTwice);
    expect_close(dhidden, other.dhidden, kTwice);
    expect_close(dw, other.dw, 1e-4);
    expect_close(dbias, other.dbias, 1e-4);
  }

  int64_t rows, fused_products = 0;
  TestTensor x, w, bias, dy, y, hidden, active, dhidden, dw, dbias;
};

/// Replaces the table of fusions for its lifetime. An empty one fuses everything.
class FusionScope {
 public:
  explicit FusionScope(std::span<const Fusion> fusions) : before_(current_) {
    use_fusions(current_ = fusions);
  }
  ~FusionScope() { use_fusions(current_ = before_); }
  FusionScope(const FusionScope&) = delete;
  FusionScope& operator=(const FusionScope&) = delete;

 private:
  inline static std::span<const Fusion> current_ = kFusions;
  std::span<const Fusion> before_;
};

TEST(CublasLtFallbacks, MatchEpilogues) {
  const FusionScope everything({});
  const Layer fused(40);
  EXPECT_EQ(fused.fused_products, 4);
  const Environment plain("TESSERA_EMULATOR_CUBLASLT", "plain");
  const Layer apart(40);
  EXPECT_EQ(apart.fused_products, 0);
  apart.expect_near(fused);
}

TEST(CublasLtFusions, FollowTheTableOfTheGpu) {
  const int here = compute_capability();
  const FusionScope everything({});
  const Layer fused(40);
  EXPECT_EQ(fused.fused_products, 4);
  for (const Epilogue epilogue :
       {Epilogue::bias, Epilogue::bias_gelu, Epilogue::gelu_backward, Epilogue::row_sums}) {
    const Fusion off[] = {{here, epilogue, /*fuse=*/false}};
    const FusionScope scope(off);
    const Layer apart(40);
    // Without GELU in the product, its bias still is.
    EXPECT_EQ(apart.fused_products, epilogue == Epilogue::bias_gelu ? 4 : 3);
    apart.expect_near(fused);
  }
  const Fusion elsewhere[] = {{here + 10, Epilogue::bias, /*fuse=*/false}};
  const FusionScope scope(elsewhere);
  EXPECT_EQ(Layer(40).fused_products, 4);
}

TEST(CublasLtFusions, ProductsTakeTheRowOfTheirSize) {
  const int here = compute_capability();
  const Fusion rows[] = {{here, Epilogue::bias, true, 256},
                         {here, Epilogue::bias, false, 64},
                         {here, Epilogue::bias, true, 128}};
  const FusionScope scope(rows);
  for (const auto& [columns, fused] :
       {std::pair{8, false}, {64, false}, {127, false}, {128, true}, {256, true}, {1000, true}}) {
    EXPECT_EQ(fuses(Epilogue::bias, columns), fused) << columns;
  }
}

TEST(CublasLtFusions, DecideWhichProductIsTuned) {
  const auto key = [](Epilogue epilogue) {
    return ProductKey{
        64,          48,          32,       MatrixLayout::rows,   MatrixLayout::columns,
        DType::bf16, DType::bf16, epilogue, /*accumulate=*/false, /*alignment=*/16};
  };
  ProductKey adds = key(Epilogue::none);
  adds.accumulate = true;
  const int here = compute_capability();
  EXPECT_EQ(with_fusions(key(Epilogue::bias_gelu)), key(Epilogue::bias_gelu));
  const Fusion gelu[] = {{here, Epilogue::bias_gelu, false}, {here, Epilogue::row_sums, false}};
  const FusionScope scope(gelu);
  EXPECT_EQ(with_fusions(key(Epilogue::bias_gelu)), key(Epilogue::bias));
  EXPECT_EQ(with_fusions(key(Epilogue::row_sums)), key(Epilogue::none));
  const Fusion both[] = {{here, Epilogue::bias_gelu, false}, {here, Epilogue::bias, false}};
  const FusionScope neither(both);
  EXPECT_EQ(with_fusions(key(Epilogue::bias_gelu)), adds);
  EXPECT_EQ(with_fusions(key(Epilogue::bias)), adds);
}

TEST(CublasLtFallbacks, AddBiasOfOtherType) {
  const TestTensor x({16, 32}, DType::bf16, 1), w({32, 24}, DType::bf16, 2),
      bias({24}, DType::bf16, 3), with({16, 24}, DType::f32), without({16, 24}, DType::f32);
  const Matrix a{x.tensor, 16, 32, MatrixLayout::rows}, b{w.tensor, 32, 24, MatrixLayout::rows};
  const int64_t before = Layer::fused();
  matmul(a, b, bias.tensor, with.tensor, Accumulate::no);
  matmul(a, b, {}, without.tensor, Accumulate::no);
  EXPECT_EQ(Layer::fused(), before);
  for (int64_t i = 0; i < 16 * 24; ++i) ASSERT_NEAR(with[i], without[i] + bias[i % 24], 1e-5);
}

TEST(CublasLtFallbacks, AddUnalignedBias) {
  const TestTensor x({16, 32}, DType::f32, 1), w({24, 32}, DType::f32, 2),
      bias({25}, DType::f32, 3), with({16, 24}, DType::f32), without({16, 24}, DType::f32);
  linear_forward(x.tensor, w.tensor, bias.tensor.slice(1, 25), with.tensor);
  linear_forward(x.tensor, w.tensor, {}, without.tensor);
  for (int64_t i = 0; i < 16 * 24; ++i) ASSERT_NEAR(with[i], without[i] + bias[1 + i % 24], 1e-5);
}

TEST(CublasLtFallbacks, ApplyGeluToUnalignedRows) {
  const TestTensor x({16, 32}, DType::bf16, 1), w({20, 32}, DType::bf16, 2),
      dy({16, 32}, DType::bf16, 3), back({32, 20}, DType::bf16, 4), hidden({16, 20}, DType::bf16),
      plain({16, 20}, DType::bf16), active({16, 20}, DType::bf16), dhidden({16, 20}, DType::bf16);
  const Matrix a{x.tensor, 16, 32, MatrixLayout::rows}, b{w.tensor, 32, 20, MatrixLayout::columns};
  const int64_t before = Layer::fused();
  matmul_gelu(a, b, {}, hidden.tensor, active.tensor);
  matmul(a, b, {}, plain.tensor, Accumulate::no);
  expect_close(hidden, plain, 0.0);
  matmul_gelu_backward({dy.tensor, 16, 32, MatrixLayout::rows},
                       {back.tensor, 32, 20, MatrixLayout::rows}, hidden.tensor, dhidden.tensor);
  EXPECT_EQ(Layer::fused(), before);
}

TEST(CublasLtFallbacks, SumSingleRow) {
  const TestTensor dy({1, 24}, DType::bf16, 1), x({1, 32}, DType::bf16, 2),
      dw({24, 32}, DType::f32), dbias({24}, DType::f32, 3), before({24}, DType::f32, 3);
  linear_backward_weight_bias(dy.tensor, x.tensor, dw.tensor, Accumulate::no, dbias.tensor);
  for (int64_t i = 0; i < 24; ++i) EXPECT_NEAR(dbias[i], before[i] + dy[i], 1e-6);
  EXPECT_NEAR(dw[33], dy[1] * x[1], 1e-6);
}

TEST(CublasLtAlgorithms, AreSharedByRowsRoundedToSameNumber) {
  const FusionScope everything({});
  const Layer first(67), second(68);  // both use the algorithm for 68
  EXPECT_EQ(first.fused_products, 4);
  for (int64_t i = 0; i < 67 * 24; ++i) ASSERT_EQ(first.active[i], second.active[i]);
}

TEST(CublasLtAlgorithms, AreRechosenWhenRefused) {
  const FusionScope everything({});
  std::optional<Layer> exact;
  {
    const Environment strict("TESSERA_EMULATOR_CUBLASLT", "exact");
    exact.emplace(71);  // no earlier test had this many rows
    EXPECT_EQ(exact->fused_products, 4);
  }
  exact->expect_near(Layer(71));
}

}  // namespace
}  // namespace tessera::cuda
