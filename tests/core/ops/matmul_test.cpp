#include "core/ops/matmul.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::random_tensor;
using test::TestTensor;
using test::to_doubles;

/// The product (m, n) = Σ_k a(m, k) b(k, n) of matrices given as functions.
template <typename A, typename B>
std::vector<double> product(int64_t m, int64_t n, int64_t k, A a, B b) {
  std::vector<double> out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (int64_t l = 0; l < k; ++l) sum += a(i, l) * b(l, j);
      out[static_cast<size_t>(i * n + j)] = sum;
    }
  }
  return out;
}

struct Case {
  int64_t m, n, k;
  DType dtype;
};

class Matmul : public testing::TestWithParam<Case> {
 protected:
  const int64_t m = GetParam().m, n = GetParam().n, k = GetParam().k;
  const DType dtype = GetParam().dtype;
  const TestTensor x = random_tensor({m, k}, dtype, 1);
  const TestTensor w = random_tensor({n, k}, dtype, 2);
  const TestTensor dy = random_tensor({m, n}, dtype, 3);
  const std::vector<double> xs = to_doubles(x.tensor), ws = to_doubles(w.tensor),
                            dys = to_doubles(dy.tensor);

  static double at(const std::vector<double>& matrix, int64_t cols, int64_t i, int64_t j) {
    return matrix[static_cast<size_t>(i * cols + j)];
  }
};

TEST_P(Matmul, ForwardAddsBias) {
  const TestTensor bias = random_tensor({n}, dtype, 4);
  TestTensor y({m, n}, dtype);
  linear_forward(x.tensor, w.tensor, bias.tensor, y.tensor);
  std::vector<double> expected = product(
      m, n, k, [&](int64_t i, int64_t l) { return at(xs, k, i, l); },
      [&](int64_t l, int64_t j) { return at(ws, k, j, l); });
  const std::vector<double> biases = to_doubles(bias.tensor);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += biases[i % biases.size()];
  test::expect_close(y.tensor, expected, test::sum_tolerance(dtype, k + 1), "y");
}

TEST_P(Matmul, BackwardInput) {
  TestTensor dx({m, k}, dtype);
  linear_backward_input(dy.tensor, w.tensor, dx.tensor);
  const std::vector<double> expected = product(
      m, k, n, [&](int64_t i, int64_t l) { return at(dys, n, i, l); },
      [&](int64_t l, int64_t j) { return at(ws, k, l, j); });
  test::expect_close(dx.tensor, expected, test::sum_tolerance(dtype, n), "dx");
}

TEST_P(Matmul, BackwardWeightOverwritesOrAccumulatesInFp32) {
  const TestTensor before = random_tensor({n, k}, DType::f32, 5);
  TestTensor dw = test::copy_of(before.tensor);
  std::vector<double> expected = product(
      n, k, m, [&](int64_t i, int64_t l) { return at(dys, n, l, i); },
      [&](int64_t l, int64_t j) { return at(xs, k, l, j); });
  linear_backward_weight(dy.tensor, x.tensor, dw.tensor, Accumulate::no);
  test::expect_close(dw.tensor, expected, test::sum_tolerance(DType::f32, m), "dw");

  dw = test::copy_of(before.tensor);
  const std::vector<double> befores = to_doubles(before.tensor);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += befores[i];
  linear_backward_weight(dy.tensor, x.tensor, dw.tensor, Accumulate::yes);
  test::expect_close(dw.tensor, expected, test::sum_tolerance(DType::f32, m + 1), "dw accumulated");
}

TEST_P(Matmul, BackwardWeightWithBias) {
  const TestTensor before = random_tensor({n, k}, DType::f32, 5),
                   bias_before = random_tensor({n}, DType::f32, 6);
  std::vector<double> sums = to_doubles(bias_before.tensor);
  for (int64_t i = 0; i < m * n; ++i) sums[static_cast<size_t>(i % n)] += dys[i];
  for (const Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
    const TestTensor dw = test::copy_of(before.tensor), apart = test::copy_of(before.tensor);
    const TestTensor without = test::copy_of(before.tensor);
    const TestTensor dbias = test::copy_of(bias_before.tensor);
    linear_backward_weight_bias(dy.tensor, x.tensor, dw.tensor, accumulate, dbias.tensor);
    linear_backward_weight(dy.tensor, x.tensor, apart.tensor, accumulate);
    // On a GPU the two may use different algorithms, each with the error of a sum.
    const double tolerance = test::sum_tolerance(DType::f32, m + 1);
    test::expect_close(dw.tensor, to_doubles(apart.tensor), 2 * tolerance, "dw");
    test::expect_close(dbias.tensor, sums, tolerance, "dbias");
    linear_backward_weight_bias(dy.tensor, x.tensor, without.tensor, accumulate, {});
    const TestTensor fresh = test::copy_of(bias_before.tensor), zeros({n}, DType::f32);
    linear_backward_weight_bias(dy.tensor, x.tensor, dw.tensor, accumulate, fresh.tensor,
                                Accumulate::no);
    linear_backward_weight_bias(dy.tensor, x.tensor, dw.tensor, accumulate, zeros.tensor);
    EXPECT_EQ(to_doubles(fresh.tensor), to_doubles(zeros.tensor)) << "overwritten dbias";
    test::expect_same_bits(without.tensor, apart.tensor, "dw without a bias");
  }
}

double activation(Activation kind, double x) {
  if (kind == Activation::gelu) return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

double activation_slope(Activation kind, double x) {
  constexpr double kStep = 1e-5;
  return (activation(kind, x + kStep) - activation(kind, x - kStep)) / (2.0 * kStep);
}

// `active` may or may not include the rounding error of `hidden`; gelu's slope is at most 1.13.
TEST_P(Matmul, ForwardWithGelu) {
  const TestTensor bias = random_tensor({n}, dtype, 4);
  const std::vector<double> biases = to_doubles(bias.tensor);
  for (const Activation kind : {Activation::gelu_tanh, Activation::gelu}) {
    TestTensor hidden({m, n}, dtype), active({m, n}, dtype);
    linear_activation_forward(x.tensor, w.tensor, bias.tensor, kind, hidden.tensor, active.tensor);
    std::vector<double> expected = product(
        m, n, k, [&](int64_t i, int64_t l) { return at(xs, k, i, l); },
        [&](int64_t l, int64_t j) { return at(ws, k, j, l); });
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += biases[i % biases.size()];
    const double tolerance = test::sum_tolerance(dtype, k + 1);
    test::expect_close(hidden.tensor, expected, tolerance, "hidden");
    for (double& value : expected) value = activation(kind, value);
    test::expect_close(active.tensor, expected, 2.13 * tolerance, "active");
  }
}

TEST_P(Matmul, BackwardInputThroughGelu) {
  const TestTensor hidden = random_tensor({m, k}, dtype, 6);
  const std::vector<double> hiddens = to_doubles(hidden.tensor);
  for (const Activation kind : {Activation::gelu_tanh, Activation::gelu}) {
    TestTensor dhidden({m, k}, dtype);
    linear_activation_backward_input(dy.tensor, w.tensor, hidden.tensor, kind, dhidden.tensor);
    std::vector<double> expected = product(
        m, k, n, [&](int64_t i, int64_t l) { return at(dys, n, i, l); },
        [&](int64_t l, int64_t j) { return at(ws, k, l, j); });
    for (size_t i = 0; i < expected.size(); ++i) expected[i] *= activation_slope(kind, hiddens[i]);
    test::expect_close(dhidden.tensor, expected, 2.13 * test::sum_tolerance(dtype, n), "dhidden");
  }
}

// Models trained before this op existed must reproduce bit for bit.
TEST_P(Matmul, CpuAppliesGeluToRoundedSums) {
  if (test::on_gpu()) GTEST_SKIP() << "a GPU applies GELU to unrounded sums";
  const TestTensor hidden({m, n}, dtype), active({m, n}, dtype), apart({m, n}, dtype);
  linear_activation_forward(x.tensor, w.tensor, {}, Activation::gelu_tanh, hidden.tensor,
                            active.tensor);
  activation_forward(hidden.tensor, Activation::gelu_tanh, apart.tensor);
  test::expect_same_bits(active.tensor, apart.tensor, "active");

  const TestTensor before = random_tensor({m, k}, dtype, 6);
  const TestTensor dx({m, k}, dtype), dbefore({m, k}, dtype);
  linear_activation_backward_input(dy.tensor, w.tensor, before.tensor, Activation::gelu_tanh,
                                   dbefore.tensor);
  linear_backward_input(dy.tensor, w.tensor, dx.tensor);
  activation_backward(dx.tensor, before.tensor, Activation::gelu_tanh, dx.tensor);
  test::expect_same_bits(dbefore.tensor, dx.tensor, "dhidden");
}

INSTANTIATE_TEST_SUITE_P(Sizes, Matmul,
                         testing::Values(Case{1, 1, 1, DType::f32}, Case{3, 5, 7, DType::f32},
                                         Case{65, 33, 129, DType::f32},
                                         Case{128, 384, 128, DType::f32},
                                         Case{130, 768, 700, DType::f32},
                                         Case{1, 257, 64, DType::f32}, Case{3, 5, 2049, DType::f32},
                                         Case{3, 5, 5000, DType::f32}, Case{1, 1, 1, DType::bf16},
                                         Case{3, 5, 7, DType::bf16}, Case{65, 33, 129, DType::bf16},
                                         Case{128, 384, 128, DType::bf16},
                                         Case{1, 257, 64, DType::bf16}),
                         [](const auto& instance) {
                           const Case& c = instance.param;
                           return fmt::format("{}x{}x{}_{}", c.m, c.n, c.k, to_string(c.dtype));
                         });

TEST(MatmulEdges, ZeroRowsClearOrKeepWeightGradient) {
  const TestTensor none({0, 3}, DType::f32), no_dy({0, 2}, DType::f32);
  TestTensor dw = random_tensor({2, 3}, DType::f32, 1);
  const TestTensor before = test::copy_of(dw.tensor);
  linear_backward_weight(no_dy.tensor, none.tensor, dw.tensor, Accumulate::yes);
  test::expect_same_bits(dw.tensor, before.tensor, "accumulated");
  const TestTensor dbias = random_tensor({2}, DType::f32, 2);
  const TestTensor bias_before = test::copy_of(dbias.tensor);
  linear_backward_weight_bias(no_dy.tensor, none.tensor, dw.tensor, Accumulate::yes, dbias.tensor);
  test::expect_same_bits(dw.tensor, before.tensor, "accumulated with a bias");
  test::expect_same_bits(dbias.tensor, bias_before.tensor, "dbias");
  linear_backward_weight(no_dy.tensor, none.tensor, dw.tensor, Accumulate::no);
  for (const double value : to_doubles(dw.tensor)) EXPECT_EQ(value, 0.0);
}

// Each shape has its own primitive, and the primitive cache is bounded.
TEST(MatmulEdges, SupportsAnyNumberOfShapes) {
  const TestTensor x = random_tensor({64, 1}, DType::f32, 1),
                   w = random_tensor({20, 1}, DType::f32, 2);
  const std::vector<double> xs = to_doubles(x.tensor), ws = to_doubles(w.tensor);
  for (int64_t m = 1; m <= 64; ++m) {
    for (int64_t n = 1; n <= 20; ++n) {
      TestTensor y({m, n}, DType::f32);
      linear_forward(x.tensor.slice(0, m), w.tensor.slice(0, n), {}, y.tensor);
      const double last = to_doubles(y.tensor).back();
      const double product = xs[static_cast<size_t>(m - 1)] * ws[static_cast<size_t>(n - 1)];
      ASSERT_NEAR(last, product, 1e-6) << m << " rows, " << n << " columns";
    }
  }
}

#ifdef TESSERA_HAS_CUDA
// The kernel for products to which cuBLASLt cannot add a bias.
TEST(MatmulEdges, AddsBiasToEachRow) {
  if (!test::on_gpu()) GTEST_SKIP() << "of GPUs alone";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TestTensor bias = random_tensor({37}, dtype, 1), y = random_tensor({65, 37}, dtype, 2);
    std::vector<double> expected = to_doubles(y.tensor);
    const std::vector<double> biases = to_doubles(bias.tensor);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += biases[i % 37];
    cuda::add_bias(bias.tensor, y.tensor, Accumulate::yes);
    test::expect_close(y.tensor, expected, test::unit_roundoff(dtype), "added");
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = biases[i % 37];
    cuda::add_bias(bias.tensor, y.tensor, Accumulate::no);
    test::expect_close(y.tensor, expected, 0.0, "written");
  }
}

TEST(MatmulEdges, Tf32TruncatesFp32Operands) {
  if (!test::on_gpu()) GTEST_SKIP() << "of GPUs alone";
  constexpr int64_t kRows = 64, kColumns = 48, kLength = 256;
  const TestTensor x = random_tensor({kRows, kLength}, DType::f32, 1),
                   w = random_tensor({kColumns, kLength}, DType::f32, 2);
  const std::vector<double> xs = to_doubles(x.tensor), ws = to_doubles(w.tensor);
  const auto at = [](const std::vector<double>& matrix, int64_t i, int64_t l) {
    return matrix[static_cast<size_t>(i * kLength + l)];
  };
  const std::vector<double> expected = product(
      kRows, kColumns, kLength, [&](int64_t i, int64_t l) { return at(xs, i, l); },
      [&](int64_t l, int64_t j) { return at(ws, j, l); });
  const TestTensor plain({kRows, kColumns}, DType::f32), y({kRows, kColumns}, DType::f32),
      again({kRows, kColumns}, DType::f32);
  linear_forward(x.tensor, w.tensor, {}, plain.tensor);
  cuda::use_tf32(true);
  linear_forward(x.tensor, w.tensor, {}, y.tensor);
  cuda::use_tf32(false);
  linear_forward(x.tensor, w.tensor, {}, again.tensor);
  test::expect_close(plain.tensor, expected, test::sum_tolerance(DType::f32, kLength), "fp32");
  test::expect_same_bits(again.tensor, plain.tensor, "fp32 again");
  // Each product of two operands with 11 bits is off by up to 2⁻¹⁰ of its value (2⁻¹¹ per operand
  // if rounded, twice that if truncated), at random. The largest error of 3072 sums of 256 is less
  // than five standard deviations, relative to sums whose own deviation is √256.
  test::expect_close(y.tensor, expected, 5 * 2 * 0x1p-10, "TF32");
  EXPECT_NE(to_doubles(y.tensor), to_doubles(plain.tensor)) << "the operands were not truncated";
}
#endif

TEST(MatmulEdges, RefusesWrongBiasGradient) {
  const TestTensor dy({4, 2}, DType::f32), x({4, 3}, DType::f32), dw({2, 3}, DType::f32);
  const TestTensor wide({3}, DType::f32), half({2}, DType::bf16);
  const auto run = [&](const Tensor& dbias) {
    linear_backward_weight_bias(dy.tensor, x.tensor, dw.tensor, Accumulate::yes, dbias);
  };
  test::expect_error([&] { run(wide.tensor); },
                     {"linear_backward_weight_bias", "dbias", "(2)", "(3)"});
  test::expect_error([&] { run(half.tensor); }, {"linear_backward_weight_bias", "dbias", "fp32"});
  test::expect_error([&] { run(dw.tensor.view({6}).slice(0, 2)); },
                     {"linear_backward_weight_bias", "dbias", "dw"});
}

TEST(MatmulEdges, RefusesWrongShapes) {
  const TestTensor x({4, 3}, DType::f32), w({2, 5}, DType::f32);
  TestTensor y({4, 2}, DType::f32);
  try {
    linear_forward(x.tensor, w.tensor, {}, y.tensor);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(2, 5)"), std::string::npos) << error.what();
  }
  const TestTensor square({3, 3}, DType::f32);
  EXPECT_THROW(linear_forward(square.tensor, square.tensor, {}, square.tensor), Error);
  const TestTensor three({4, 3}, DType::f32);
  EXPECT_THROW(linear_activation_forward(x.tensor, square.tensor, {}, Activation::gelu_tanh,
                                         three.tensor, three.tensor),
               Error);
  EXPECT_THROW(linear_activation_forward(x.tensor, square.tensor, {}, Activation::gelu_tanh,
                                         three.tensor, y.tensor),
               Error);
  EXPECT_THROW(linear_activation_backward_input(three.tensor, square.tensor, y.tensor,
                                                Activation::gelu_tanh, three.tensor),
               Error);
  TestTensor half({4, 5}, DType::bf16);
  EXPECT_THROW(linear_forward(half.tensor, w.tensor, {}, y.tensor), Error);
}

}  // namespace
}  // namespace tessera
