#include "core/ops/matmul.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::random_tensor;
using test::to_doubles;

/// (m, n) = Σ_k a(m, k) b(k, n), with the matrices given as functions.
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
  const OwnedTensor x = random_tensor({m, k}, dtype, 1);
  const OwnedTensor w = random_tensor({n, k}, dtype, 2);
  const OwnedTensor dy = random_tensor({m, n}, dtype, 3);
  const std::vector<double> xs = to_doubles(x.tensor), ws = to_doubles(w.tensor),
                            dys = to_doubles(dy.tensor);

  static double at(const std::vector<double>& matrix, int64_t cols, int64_t i, int64_t j) {
    return matrix[static_cast<size_t>(i * cols + j)];
  }
};

TEST_P(Matmul, ForwardAddsTheBias) {
  const OwnedTensor bias = random_tensor({n}, dtype, 4);
  OwnedTensor y({m, n}, dtype);
  linear_forward(x.tensor, w.tensor, bias.tensor, y.tensor);
  std::vector<double> expected = product(
      m, n, k, [&](int64_t i, int64_t l) { return at(xs, k, i, l); },
      [&](int64_t l, int64_t j) { return at(ws, k, j, l); });
  const std::vector<double> biases = to_doubles(bias.tensor);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += biases[i % biases.size()];
  test::expect_close(y.tensor, expected, test::sum_tolerance(dtype, k + 1), "y");
}

TEST_P(Matmul, BackwardInput) {
  OwnedTensor dx({m, k}, dtype);
  linear_backward_input(dy.tensor, w.tensor, dx.tensor);
  const std::vector<double> expected = product(
      m, k, n, [&](int64_t i, int64_t l) { return at(dys, n, i, l); },
      [&](int64_t l, int64_t j) { return at(ws, k, l, j); });
  test::expect_close(dx.tensor, expected, test::sum_tolerance(dtype, n), "dx");
}

TEST_P(Matmul, BackwardWeightOverwritesOrAccumulatesInFp32) {
  const OwnedTensor before = random_tensor({n, k}, DType::f32, 5);
  OwnedTensor dw = test::copy_of(before.tensor);
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

INSTANTIATE_TEST_SUITE_P(Sizes, Matmul,
                         testing::Values(Case{1, 1, 1, DType::f32}, Case{3, 5, 7, DType::f32},
                                         Case{65, 33, 129, DType::f32},
                                         Case{128, 384, 128, DType::f32},
                                         Case{130, 768, 700, DType::f32},
                                         Case{1, 257, 64, DType::f32}, Case{1, 1, 1, DType::bf16},
                                         Case{3, 5, 7, DType::bf16}, Case{65, 33, 129, DType::bf16},
                                         Case{128, 384, 128, DType::bf16},
                                         Case{1, 257, 64, DType::bf16}));

TEST(MatmulEdges, NoRowsLeaveTheWeightGradientAsItsModeSays) {
  const OwnedTensor none({0, 3}, DType::f32), no_dy({0, 2}, DType::f32);
  OwnedTensor dw = random_tensor({2, 3}, DType::f32, 1);
  const OwnedTensor before = test::copy_of(dw.tensor);
  linear_backward_weight(no_dy.tensor, none.tensor, dw.tensor, Accumulate::yes);
  test::expect_same_bits(dw.tensor, before.tensor, "accumulated");
  linear_backward_weight(no_dy.tensor, none.tensor, dw.tensor, Accumulate::no);
  for (const double value : to_doubles(dw.tensor)) EXPECT_EQ(value, 0.0);
}

// Each is made for its own sizes, and only so many are kept.
TEST(MatmulEdges, AnyNumberOfKindsOfProducts) {
  const OwnedTensor x = random_tensor({64, 1}, DType::f32, 1),
                    w = random_tensor({20, 1}, DType::f32, 2);
  const std::vector<double> xs = to_doubles(x.tensor), ws = to_doubles(w.tensor);
  for (int64_t m = 1; m <= 64; ++m) {
    for (int64_t n = 1; n <= 20; ++n) {
      OwnedTensor y({m, n}, DType::f32);
      linear_forward(x.tensor.slice(0, m), w.tensor.slice(0, n), {}, y.tensor);
      const double last = to_doubles(y.tensor).back();
      const double product = xs[static_cast<size_t>(m - 1)] * ws[static_cast<size_t>(n - 1)];
      ASSERT_NEAR(last, product, 1e-6) << m << " rows, " << n << " columns";
    }
  }
}

TEST(MatmulEdges, ShapesThatDoNotFitAreNamed) {
  const OwnedTensor x({4, 3}, DType::f32), w({2, 5}, DType::f32);
  OwnedTensor y({4, 2}, DType::f32);
  try {
    linear_forward(x.tensor, w.tensor, {}, y.tensor);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("(2, 5)"), std::string::npos) << error.what();
  }
  const OwnedTensor square({3, 3}, DType::f32);
  EXPECT_THROW(linear_forward(square.tensor, square.tensor, {}, square.tensor), Error);
  OwnedTensor half({4, 5}, DType::bf16);
  EXPECT_THROW(linear_forward(half.tensor, w.tensor, {}, y.tensor), Error);
}

}  // namespace
}  // namespace tessera
