#include "core/ops/value_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/elementwise.h"
#include "tests/support/expect_error.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr DType kDTypes[] = {DType::f32, DType::bf16};
constexpr ValueLoss kLosses[] = {ValueLoss::mse, ValueLoss::bce_with_logits};

double reference_loss(ValueLoss loss, std::span<const double> logits,
                      std::span<const double> targets, int64_t columns) {
  double sum = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double x = logits[i], t = targets[i];
    if (loss == ValueLoss::mse) {
      sum += (x - t) * (x - t);
    } else {
      const double p = 1.0 / (1.0 + std::exp(-x));
      sum -= t * std::log(p) + (1.0 - t) * std::log(1.0 - p);
    }
  }
  return sum / static_cast<double>(columns);
}

TEST(ValueLoss, MatchesReferenceForAnyShape) {
  for (const DType dtype : kDTypes) {
    for (const ValueLoss loss : kLosses) {
      for (const Shape shape : {Shape{1, 1}, Shape{7, 1}, Shape{5, 3}, Shape{9, 130}}) {
        const TestTensor logits = random_tensor(shape, dtype, 1, 2.0f);
        std::vector<double> present = to_doubles(random_ints(shape, 0, 2, 2).tensor);
        const TestTensor targets = loss == ValueLoss::mse
                                       ? random_tensor(shape, DType::f32, 3)
                                       : from_doubles(present, shape, DType::f32);
        const auto x = to_doubles(logits.tensor), t = to_doubles(targets.tensor);
        const TestTensor sum({1}, DType::f64);
        fill(sum.tensor, 2.0);
        value_loss(logits.tensor, targets.tensor, loss, sum.tensor);
        const double expected = 2.0 + reference_loss(loss, x, t, shape[1]);
        // In double on both sides.
        EXPECT_NEAR(to_doubles(sum.tensor)[0], expected, 1e-12 * expected);

        const auto gradient = finite_difference(
            [&](std::span<const double> at) {
              return 0.25 * reference_loss(loss, at, t, shape[1]);
            },
            x);
        value_loss_gradient(logits.tensor, targets.tensor, loss, 0.25f);
        // A difference, exp, a quotient and two products, each rounded once.
        expect_close(logits.tensor, gradient, 8 * unit_roundoff(dtype), "gradient");
      }
    }
  }
}

TEST(ValueLoss, IsFiniteForExtremeLogits) {
  const std::vector<double> values = {-1e30, 1e30, -1e30, 1e30, 200.0, -200.0};
  const TestTensor logits = from_doubles(values, {6, 1}, DType::f32);
  const TestTensor targets =
      from_doubles(std::vector{0.0, 1.0, 1.0, 0.0, 1.0, 1.0}, {6, 1}, DType::f32);
  const TestTensor sum({1}, DType::f64);
  value_loss(logits.tensor, targets.tensor, ValueLoss::bce_with_logits, sum.tensor);
  EXPECT_NEAR(to_doubles(sum.tensor)[0], 2e30, 1e24);
  value_loss_gradient(logits.tensor, targets.tensor, ValueLoss::bce_with_logits, 1.0f);
  EXPECT_EQ(to_doubles(logits.tensor), (std::vector{0.0, 0.0, -1.0, 1.0, 0.0, -1.0}));
}

TEST(ValueLoss, RefusesWrongArguments) {
  const TestTensor logits({3, 2}, DType::f32), sum({1}, DType::f64);
  const TestTensor few({3, 1}, DType::f32), halves({3, 2}, DType::bf16);
  const auto loss = [&](const Tensor& x, const Tensor& t, const Tensor& into) {
    value_loss(x, t, ValueLoss::mse, into);
  };
  expect_error([&] { loss(logits.tensor, few.tensor, sum.tensor); }, {"value_loss", "targets"});
  expect_error([&] { loss(logits.tensor, halves.tensor, sum.tensor); }, {"targets", "bf16"});
  expect_error([&] { loss(logits.tensor, logits.tensor, few.tensor); }, {"loss_sum"});
  expect_error([&] { value_loss_gradient(logits.tensor, logits.tensor, ValueLoss::mse, 1.0f); },
               {"value_loss_gradient", "logits", "targets"});
}

}  // namespace
}  // namespace tessera
