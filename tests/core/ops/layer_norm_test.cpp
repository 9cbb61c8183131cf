#include "core/ops/layer_norm.h"

#include <gtest/gtest.h>

#include "core/ops/elementwise.h"
#include "tests/support/expect_error.h"
#include "tests/support/finite_difference.h"
#include "tests/support/reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr float kEps = 1e-5f;
constexpr int64_t kRowCounts[] = {1, 3, 65, 200};
constexpr int64_t kColumnCounts[] = {1, 3, 17, 127, 769};
constexpr DType kDTypes[] = {DType::f32, DType::bf16};
constexpr reference::Norm kNorms[] = {reference::Norm::layer, reference::Norm::rms};

std::vector<double> plus(std::vector<double> a, std::span<const double> b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// Arguments of both passes, after the forward pass.
struct Case {
  Case(int64_t rows, int64_t columns, DType dtype, reference::Norm norm = reference::Norm::layer)
      : type(norm),
        x(random_tensor({rows, columns}, dtype, 1)),
        weight(random_tensor({columns}, dtype, 2)),
        bias(random_tensor({columns}, dtype, 3)),
        dy(random_tensor({rows, columns}, dtype, 4)),
        residual(random_tensor({rows, columns}, dtype, 5)),
        dweight(random_tensor({columns}, DType::f32, 6)),
        dbias(random_tensor({columns}, DType::f32, 7)),
        y({rows, columns}, dtype),
        dx({rows, columns}, dtype),
        mean({rows}, DType::f32),
        rstd({rows}, DType::f32) {
    layer_norm_forward(x.tensor, weight.tensor, bias.tensor, kEps, y.tensor, means(), rstd.tensor);
  }
  Tensor means() const { return type == reference::Norm::layer ? mean.tensor : Tensor(); }
  void backward(const Tensor& add, const Tensor& out) {
    layer_norm_backward(dy.tensor, x.tensor, weight.tensor, means(), rstd.tensor, add, out,
                        dweight.tensor, dbias.tensor);
  }

  reference::Norm type;
  TestTensor x, weight, bias, dy, residual, dweight, dbias, y, dx, mean, rstd;
};

class Norms : public testing::TestWithParam<reference::Norm> {};

INSTANTIATE_TEST_SUITE_P(LayerNorm, Norms, testing::ValuesIn(kNorms), [](const auto& instance) {
  return instance.param == reference::Norm::layer ? "layer" : "rms";
});

TEST_P(Norms, ForwardMatchesReference) {
  for (const DType dtype : kDTypes) {
    for (const int64_t rows : kRowCounts) {
      for (const int64_t columns : kColumnCounts) {
        SCOPED_TRACE(fmt::format("{} ({}, {})", to_string(dtype), rows, columns));
        const Case c(rows, columns, dtype, GetParam());
        const auto expected =
            reference::layer_norm(to_doubles(c.x.tensor), to_doubles(c.weight.tensor),
                                  to_doubles(c.bias.tensor), columns, kEps, GetParam());
        const double statistics = sum_tolerance(DType::f32, columns);
        if (c.means().defined()) expect_close(c.means(), expected.mean, statistics, "mean");
        expect_close(c.rstd.tensor, expected.rstd, statistics, "rstd");
        expect_close(c.y.tensor, expected.y, sum_tolerance(dtype, columns), "y");
      }
    }
  }
}

TEST(LayerNorm, LargeMeanDoesNotCancel) {
  std::vector<double> x(768);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 4096.0 + static_cast<double>(i % 7);
  const TestTensor input = from_doubles(x, {1, 768}, DType::f32);
  const TestTensor ones = from_doubles(std::vector<double>(768, 1.0), {768}, DType::f32);
  TestTensor y({1, 768}, DType::f32), mean({1}, DType::f32), rstd({1}, DType::f32);
  layer_norm_forward(input.tensor, ones.tensor, {}, kEps, y.tensor, mean.tensor, rstd.tensor);
  const auto expected = reference::layer_norm(x, to_doubles(ones.tensor), {}, 768, kEps);
  // The only error is the rounding of the mean at 2¹²: 2¹² × 2⁻²⁴, for values about 1.
  expect_close(y.tensor, expected.y, 4 * 0x1p-12, "y");
}

TEST_P(Norms, BackwardMatchesReferenceAndAccumulates) {
  for (const DType dtype : kDTypes) {
    for (const int64_t rows : kRowCounts) {
      for (const int64_t columns : kColumnCounts) {
        if (columns == 1) continue;  // x̂ is 0 / sqrt(eps): only rounding errors
        SCOPED_TRACE(fmt::format("{} ({}, {})", to_string(dtype), rows, columns));
        Case c(rows, columns, dtype, GetParam());
        const auto expected =
            reference::layer_norm_gradient(to_doubles(c.dy.tensor), to_doubles(c.x.tensor),
                                           to_doubles(c.weight.tensor), columns, kEps, GetParam());
        const auto dweight = plus(to_doubles(c.dweight.tensor), expected.dweight);
        const auto dbias = plus(to_doubles(c.dbias.tensor), expected.dbias);
        c.backward(c.residual.tensor, c.dx.tensor);
        // The standard deviation of a short row may be small, which magnifies earlier errors.
        const double sums = sum_tolerance(DType::f32, rows + columns);
        expect_close(c.dx.tensor, plus(expected.dx, to_doubles(c.residual.tensor)),
                     sum_tolerance(dtype, columns) + sums, "dx");
        expect_close(c.dweight.tensor, dweight, sums, "dweight");
        expect_close(c.dbias.tensor, dbias, sums, "dbias");
      }
    }
  }
}

TEST_P(Norms, ReferenceMatchesFiniteDifferences) {
  constexpr int64_t kRows = 2, kColumns = 5;
  const auto x = to_doubles(random_tensor({kRows, kColumns}, DType::f32, 1).tensor);
  const auto weight = to_doubles(random_tensor({kColumns}, DType::f32, 2).tensor);
  const auto bias = to_doubles(random_tensor({kColumns}, DType::f32, 3).tensor);
  const auto dy = to_doubles(random_tensor({kRows, kColumns}, DType::f32, 4).tensor);
  const auto gradient = reference::layer_norm_gradient(dy, x, weight, kColumns, kEps, GetParam());
  const auto loss = [&](reference::View in, reference::View w, reference::View b) {
    return dot(dy, reference::layer_norm(in, w, b, kColumns, kEps, GetParam()).y);
  };
  constexpr double kTolerance = 1e-7;  // the error of central differences at h = 1e-5
  expect_close(gradient.dx,
               finite_difference([&](reference::View v) { return loss(v, weight, bias); }, x),
               kTolerance, "dx");
  expect_close(gradient.dweight,
               finite_difference([&](reference::View v) { return loss(x, v, bias); }, weight),
               kTolerance, "dweight");
  expect_close(gradient.dbias,
               finite_difference([&](reference::View v) { return loss(x, weight, v); }, bias),
               kTolerance, "dbias");
}

TEST(LayerNorm, SupportsAliases) {
  for (const DType dtype : kDTypes) {
    Case c(37, 129, dtype);
    const TestTensor y = copy_of(c.x.tensor);
    layer_norm_forward(y.tensor, c.weight.tensor, c.bias.tensor, kEps, y.tensor, c.mean.tensor,
                       c.rstd.tensor);
    expect_same_bits(y.tensor, c.y.tensor, "y in place of x");

    c.backward(c.residual.tensor, c.dx.tensor);
    const TestTensor in_residual = copy_of(c.residual.tensor);
    c.backward(in_residual.tensor, in_residual.tensor);
    expect_same_bits(in_residual.tensor, c.dx.tensor, "dx in place of residual");
    c.backward(c.residual.tensor, c.dy.tensor);
    expect_same_bits(c.dy.tensor, c.dx.tensor, "dx in place of dy");
  }
}

TEST_P(Norms, AddendHasTheBitsOfAdd) {
  for (const DType dtype : kDTypes) {
    // Rows of any length, of a warp and of a block.
    for (const int64_t columns : {3, 127, 264, 768, 1032, 4104}) {
      SCOPED_TRACE(fmt::format("{} {} columns", to_string(dtype), columns));
      constexpr int64_t kRows = 67;
      Case apart(kRows, columns, dtype, GetParam()), fused(kRows, columns, dtype, GetParam());
      const TestTensor addend = random_tensor({kRows, columns}, dtype, 8);
      for (const Tensor& residual : {Tensor(), fused.residual.tensor}) {
        const TestTensor dy({kRows, columns}, dtype), in_place = copy_of(addend.tensor);
        add(apart.dy.tensor, addend.tensor, dy.tensor);
        layer_norm_backward(dy.tensor, apart.x.tensor, apart.weight.tensor, apart.means(),
                            apart.rstd.tensor, residual, apart.dx.tensor, apart.dweight.tensor,
                            apart.dbias.tensor);
        layer_norm_backward(fused.dy.tensor, fused.x.tensor, fused.weight.tensor, fused.means(),
                            fused.rstd.tensor, residual, in_place.tensor, fused.dweight.tensor,
                            fused.dbias.tensor, in_place.tensor);
        expect_same_bits(in_place.tensor, apart.dx.tensor, "dx in place of addend");
        expect_same_bits(fused.dweight.tensor, apart.dweight.tensor, "dweight");
        expect_same_bits(fused.dbias.tensor, apart.dbias.tensor, "dbias");
      }
    }
  }
}

TEST(LayerNorm, OverwritesParameterGradients) {
  for (const int64_t rows : {0, 67}) {
    for (const int64_t columns : {3, 264, 1032}) {
      SCOPED_TRACE(fmt::format("({}, {})", rows, columns));
      Case added(rows, columns, DType::bf16), overwritten(rows, columns, DType::bf16);
      fill(added.dweight.tensor, 0.0);
      fill(added.dbias.tensor, 0.0);
      added.backward({}, added.dx.tensor);
      const Case& c = overwritten;
      layer_norm_backward(c.dy.tensor, c.x.tensor, c.weight.tensor, c.mean.tensor, c.rstd.tensor,
                          {}, c.dx.tensor, c.dweight.tensor, c.dbias.tensor, {}, Accumulate::no);
      EXPECT_EQ(to_doubles(c.dweight.tensor), to_doubles(added.dweight.tensor));
      EXPECT_EQ(to_doubles(c.dbias.tensor), to_doubles(added.dbias.tensor));
    }
  }
}

TEST(LayerNorm, SupportsUndefinedArguments) {
  Case c(5, 33, DType::f32), zero(5, 33, DType::f32);
  std::fill_n(zero.residual.tensor.data<float>(), 5 * 33, 0.0f);
  zero.backward(zero.residual.tensor, zero.dx.tensor);
  layer_norm_backward(c.dy.tensor, c.x.tensor, c.weight.tensor, c.mean.tensor, c.rstd.tensor, {},
                      c.dx.tensor, c.dweight.tensor, {});
  expect_same_bits(c.dx.tensor, zero.dx.tensor, "no residual");
  expect_same_bits(c.dweight.tensor, zero.dweight.tensor, "no dbias");
}

TEST(LayerNorm, BitsDoNotDependOnThreads) {
  if (on_gpu()) GTEST_SKIP() << "a GPU op does not use the host's threads";
  for (const DType dtype : kDTypes) {
    const ThreadCount one(1);
    Case expected(333, 769, dtype);
    expected.backward(expected.residual.tensor, expected.dx.tensor);
    for (const int threads : {2, 3}) {
      const ThreadCount count(threads);
      Case c(333, 769, dtype);
      c.backward(c.residual.tensor, c.dx.tensor);
      expect_same_bits(c.y.tensor, expected.y.tensor, "y");
      expect_same_bits(c.dx.tensor, expected.dx.tensor, "dx");
      expect_same_bits(c.dweight.tensor, expected.dweight.tensor, "dweight");
      expect_same_bits(c.dbias.tensor, expected.dbias.tensor, "dbias");
    }
  }
}

TEST(LayerNorm, SupportsNoRows) {
  Case c(0, 8, DType::f32);
  const TestTensor before = copy_of(c.dweight.tensor);
  c.backward({}, c.dx.tensor);
  expect_same_bits(c.dweight.tensor, before.tensor, "dweight");
}

TEST(LayerNorm, ChecksMetaTensors) {
  const TestTensor x({4, 8}, DType::bf16, kMeta), w({8}, DType::bf16, kMeta);
  const TestTensor row({4}, DType::f32, kMeta), dw({8}, DType::f32, kMeta);
  layer_norm_forward(x.tensor, w.tensor, w.tensor, kEps, x.tensor, row.tensor, row.tensor);
  layer_norm_backward(x.tensor, x.tensor, w.tensor, row.tensor, row.tensor, {}, x.tensor, dw.tensor,
                      {});
  expect_error(
      [&] {
        layer_norm_forward(x.tensor, w.tensor, w.tensor, kEps, x.tensor, dw.tensor, row.tensor);
      },
      {"layer_norm_forward", "mean", "4 rows"});
}

TEST(LayerNorm, RefusesWrongArguments) {
  Case c(4, 8, DType::f32);
  const TestTensor other({9}, DType::f32), half({8}, DType::bf16);
  const auto forward = [&](const Tensor& weight, const Tensor& bias, const Tensor& y) {
    layer_norm_forward(c.x.tensor, weight, bias, kEps, y, c.mean.tensor, c.rstd.tensor);
  };
  expect_error([&] { forward(other.tensor, c.bias.tensor, c.y.tensor); },
               {"layer_norm_forward", "weight", "(8)", "(9)"});
  expect_error([&] { forward(c.weight.tensor, half.tensor, c.y.tensor); },
               {"layer_norm_forward", "bias", "fp32", "bf16"});
  expect_error([&] { forward(c.weight.tensor, {}, {}); }, {"layer_norm_forward", "y", "undefined"});
  expect_error([&] { c.backward(c.mean.tensor, c.dx.tensor); },
               {"layer_norm_backward", "residual", "(4, 8)", "(4)"});
  expect_error([&] { c.backward({}, c.x.tensor); }, {"layer_norm_backward", "dx", "x", "share"});
  expect_error(
      [&] {
        layer_norm_backward(c.dy.tensor, c.x.tensor, c.weight.tensor, c.mean.tensor, c.rstd.tensor,
                            {}, c.dx.tensor, c.dweight.tensor, {}, c.mean.tensor);
      },
      {"layer_norm_backward", "addend", "(4, 8)", "(4)"});
  const TestTensor longer({5, 8}, DType::f32);
  expect_error(
      [&] {
        layer_norm_forward(longer.tensor.slice(0, 4), c.weight.tensor, {}, kEps,
                           longer.tensor.slice(1, 5), c.mean.tensor, c.rstd.tensor);
      },
      {"layer_norm_forward", "y overlaps a part of x"});
}

TEST_P(Norms, BiasDropoutAddNormMatchesReference) {
  for (const DType dtype : kDTypes) {
    for (const int64_t columns : {1, 17, 64, 769}) {
      // x̂ of one column is ±1 in RMSNorm: weight and bias may cancel.
      if (columns == 1 && GetParam() == reference::Norm::rms) continue;
      constexpr int64_t kRows = 5;
      const TestTensor x = random_tensor({kRows, columns}, dtype, 1);
      const TestTensor residual = random_tensor({kRows, columns}, dtype, 2);
      const TestTensor bias = random_tensor({columns}, dtype, 3);
      const TestTensor weight = random_tensor({columns}, dtype, 4);
      const TestTensor norm_bias = random_tensor({columns}, dtype, 5);
      const TestTensor sum({kRows, columns}, dtype), y({kRows, columns}, dtype);
      const TestTensor mean({kRows}, DType::f32), rstd({kRows}, DType::f32);
      const Tensor means = GetParam() == reference::Norm::layer ? mean.tensor : Tensor();
      bias_dropout_add_norm(x.tensor, bias.tensor, residual.tensor, {}, sum.tensor, weight.tensor,
                            norm_bias.tensor, kEps, y.tensor, means, rstd.tensor);
      auto sums = plus(to_doubles(x.tensor), to_doubles(residual.tensor));
      const auto biases = to_doubles(bias.tensor);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += biases[i % biases.size()];
      // Two roundings in fp32 of terms slightly larger than their sum.
      expect_close(sum.tensor, sums, unit_roundoff(dtype) + 4 * unit_roundoff(DType::f32), "sum");
      // The norm uses the rounded sum.
      const auto expected =
          reference::layer_norm(to_doubles(sum.tensor), to_doubles(weight.tensor),
                                to_doubles(norm_bias.tensor), columns, kEps, GetParam());
      expect_close(y.tensor, expected.y, sum_tolerance(dtype, columns), "y");
    }
  }
}

TEST(BiasDropoutAddNorm, RefusesWrongArguments) {
  const TestTensor x({4, 8}, DType::f32), sum({4, 8}, DType::f32), y({4, 8}, DType::f32);
  const TestTensor weight({8}, DType::f32), wrong({9}, DType::f32), row({4}, DType::f32);
  const TestTensor narrow({4, 4}, DType::f32);
  const auto run = [&](const Tensor& from, const Tensor& bias, const Tensor& to, float dropped) {
    Dropout dropout;
    dropout.probability = dropped;
    bias_dropout_add_norm(from, bias, x.tensor, dropout, sum.tensor, weight.tensor, {}, kEps, to,
                          row.tensor, row.tensor);
  };
  run(x.tensor, weight.tensor, y.tensor, 0.0f);
  expect_error([&] { run(x.tensor, wrong.tensor, y.tensor, 0.0f); },
               {"bias_dropout_add", "bias", "(8)", "(9)"});
  expect_error([&] { run(narrow.tensor, {}, y.tensor, 0.0f); }, {"bias_dropout_add", "(4, 4)"});
  expect_error([&] { run(x.tensor, {}, y.tensor, 1.0f); }, {"bias_dropout_add", "probability"});
  for (const TestTensor* read : {&x, &sum}) {
    expect_error([&] { run(x.tensor, {}, read->tensor, 0.0f); }, {"bias_dropout_add_norm", "y"});
  }
}

}  // namespace
}  // namespace tessera
