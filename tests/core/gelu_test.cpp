#include "core/ops/gelu.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr Gelu kKinds[] = {Gelu::tanh, Gelu::erf};
constexpr DType kDTypes[] = {DType::f32, DType::bf16};

std::vector<double> expected_forward(const Tensor& x, Gelu kind) {
  auto values = to_doubles(x);
  for (double& value : values) value = reference::gelu(value, kind);
  return values;
}

std::vector<double> expected_backward(const Tensor& dy, const Tensor& x, Gelu kind) {
  auto values = to_doubles(x);
  const auto dys = to_doubles(dy);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = dys[i] * reference::gelu_slope(values[i], kind);
  }
  return values;
}

// There are about twelve roundings between x and the result; the exponent magnifies them by up to
// 2u ≈ 4 where it matters.
double tolerance(DType dtype) { return unit_roundoff(dtype) + 16 * unit_roundoff(DType::f32); }

TEST(Gelu, BothPassesMatchReference) {
  constexpr int64_t kCount = 70001;
  for (const Gelu kind : kKinds) {
    for (const DType dtype : kDTypes) {
      const TestTensor x = random_tensor({kCount}, dtype, 1, 2.0f);
      const TestTensor dy = random_tensor({kCount}, dtype, 2);
      const TestTensor y({kCount}, dtype), dx({kCount}, dtype);
      gelu_forward(x.tensor, kind, y.tensor);
      gelu_backward(dy.tensor, x.tensor, kind, dx.tensor);
      expect_close(y.tensor, expected_forward(x.tensor, kind), tolerance(dtype), "y");
      expect_close(dx.tensor, expected_backward(dy.tensor, x.tensor, kind), tolerance(dtype), "dx");
      // Elements are independent, so a short tensor has the bits of the start of a long one.
      for (const int64_t n : {0, 1, 3, 17, 65, 769}) {
        const TestTensor short_y({n}, dtype), short_dx({n}, dtype);
        gelu_forward(x.tensor.slice(0, n), kind, short_y.tensor);
        gelu_backward(dy.tensor.slice(0, n), x.tensor.slice(0, n), kind, short_dx.tensor);
        expect_same_bits(short_y.tensor, y.tensor.slice(0, n), "the first elements of y");
        expect_same_bits(short_dx.tensor, dx.tensor.slice(0, n), "the first elements of dx");
      }
    }
  }
}

TEST(Gelu, ReferenceMatchesFiniteDifferences) {
  for (const Gelu kind : kKinds) {
    for (double x = -6.0; x < 6.0; x += 0.037) {
      constexpr double kH = 1e-5;
      const double difference =
          (reference::gelu(x + kH, kind) - reference::gelu(x - kH, kind)) / (2 * kH);
      EXPECT_NEAR(reference::gelu_slope(x, kind), difference, 1e-9) << x;
    }
  }
}

TEST(Gelu, LargeInputsAreZeroOrUnchanged) {
  const std::vector<double> values = {-3e38, -1e20, -1000.0, -40.0, 0.0, 40.0, 1000.0, 1e20, 3e38};
  const TestTensor x = from_doubles(values, {9}, DType::f32);
  const TestTensor one = from_doubles(std::vector<double>(9, 1.0), {9}, DType::f32);
  // A GPU's fast quotients are off by up to 2 units in the last place, each two roundings.
  const double tolerance = on_gpu() ? 4 * unit_roundoff(DType::f32) : 0.0;
  for (const Gelu kind : kKinds) {
    const TestTensor y({9}, DType::f32), dx({9}, DType::f32);
    gelu_forward(x.tensor, kind, y.tensor);
    gelu_backward(one.tensor, x.tensor, kind, dx.tensor);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto in = static_cast<float>(values[i]);
      const double value = in > 0.0f ? in : 0.0;
      EXPECT_NEAR(y.tensor.span<float>()[i], value, tolerance * value) << in;
      const double slope = in == 0.0f ? 0.5 : (in > 0.0f ? 1.0 : 0.0);
      EXPECT_NEAR(dx.tensor.span<float>()[i], slope, 1e-30 + tolerance * slope) << in;
    }
  }
}

TEST(Gelu, SupportsAliasesAndAnyThreads) {
  const int64_t count = on_gpu() ? 10003 : 100003;
  for (const Gelu kind : kKinds) {
    for (const DType dtype : kDTypes) {
      const TestTensor x = random_tensor({count}, dtype, 1), dy = random_tensor({count}, dtype, 2);
      const TestTensor y({count}, dtype), dx({count}, dtype);
      {
        const ThreadCount one(1);
        gelu_forward(x.tensor, kind, y.tensor);
        gelu_backward(dy.tensor, x.tensor, kind, dx.tensor);
      }
      for (const int threads : {1, 2, 3}) {
        const ThreadCount team(threads);
        const TestTensor in_x = copy_of(x.tensor), in_dy = copy_of(dy.tensor);
        gelu_backward(in_dy.tensor, x.tensor, kind, in_dy.tensor);
        expect_same_bits(in_dy.tensor, dx.tensor, "dx in place of dy");
        gelu_forward(in_x.tensor, kind, in_x.tensor);
        expect_same_bits(in_x.tensor, y.tensor, "y in place of x");
        const TestTensor again = copy_of(x.tensor);
        gelu_backward(dy.tensor, again.tensor, kind, again.tensor);
        expect_same_bits(again.tensor, dx.tensor, "dx in place of x");
      }
    }
  }
}

TEST(Gelu, RefusesWrongArguments) {
  const TestTensor x({4, 8}, DType::bf16, kMeta), wrong({4, 9}, DType::bf16, kMeta);
  const TestTensor ids({4, 8}, DType::i32, kMeta);
  gelu_forward(x.tensor, Gelu::tanh, x.tensor);
  gelu_backward(x.tensor, x.tensor, Gelu::erf, x.tensor);
  expect_error([&] { gelu_forward(x.tensor, Gelu::tanh, wrong.tensor); },
               {"gelu_forward", "y", "(4, 8)", "(4, 9)"});
  expect_error([&] { gelu_forward(ids.tensor, Gelu::tanh, ids.tensor); },
               {"gelu_forward", "x", "int32"});
  expect_error([&] { gelu_backward(wrong.tensor, x.tensor, Gelu::tanh, x.tensor); },
               {"gelu_backward", "dy", "(4, 9)"});
}

}  // namespace
}  // namespace tessera
