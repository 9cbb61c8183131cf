#include "core/ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr Activation kKinds[] = {Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                 Activation::relu};
constexpr DType kDTypes[] = {DType::f32, DType::bf16};

std::vector<double> expected_forward(const Tensor& x, Activation kind) {
  auto values = to_doubles(x);
  for (double& value : values) value = reference::activation(value, kind);
  return values;
}

std::vector<double> expected_backward(const Tensor& dy, const Tensor& x, Activation kind) {
  auto values = to_doubles(x);
  const auto dys = to_doubles(dy);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = dys[i] * reference::activation_slope(values[i], kind);
  }
  return values;
}

// There are about twelve roundings between x and the result; the exponent magnifies them by up to
// 2u ≈ 4 where it matters.
double tolerance(DType dtype) { return unit_roundoff(dtype) + 16 * unit_roundoff(DType::f32); }

TEST(Activations, BothPassesMatchReference) {
  constexpr int64_t kCount = 70001;
  for (const Activation kind : kKinds) {
    for (const DType dtype : kDTypes) {
      const TestTensor x = random_tensor({kCount}, dtype, 1, 2.0f);
      const TestTensor dy = random_tensor({kCount}, dtype, 2);
      const TestTensor y({kCount}, dtype), dx({kCount}, dtype);
      activation_forward(x.tensor, kind, y.tensor);
      activation_backward(dy.tensor, x.tensor, kind, dx.tensor);
      expect_close(y.tensor, expected_forward(x.tensor, kind), tolerance(dtype), "y");
      expect_close(dx.tensor, expected_backward(dy.tensor, x.tensor, kind), tolerance(dtype), "dx");
      // Elements are independent, so a short tensor has the bits of the start of a long one.
      for (const int64_t n : {0, 1, 3, 17, 65, 769}) {
        const TestTensor short_y({n}, dtype), short_dx({n}, dtype);
        activation_forward(x.tensor.slice(0, n), kind, short_y.tensor);
        activation_backward(dy.tensor.slice(0, n), x.tensor.slice(0, n), kind, short_dx.tensor);
        expect_same_bits(short_y.tensor, y.tensor.slice(0, n), "the first elements of y");
        expect_same_bits(short_dx.tensor, dx.tensor.slice(0, n), "the first elements of dx");
      }
    }
  }
}

TEST(Activations, ReferenceMatchesFiniteDifferences) {
  for (const Activation kind : kKinds) {
    for (double x = -6.0; x < 6.0; x += 0.037) {  // never within h of relu's corner
      constexpr double kH = 1e-5;
      const double difference =
          (reference::activation(x + kH, kind) - reference::activation(x - kH, kind)) / (2 * kH);
      EXPECT_NEAR(reference::activation_slope(x, kind), difference, 1e-9) << x;
    }
  }
}

TEST(Activations, LargeInputsMatchReference) {
  const std::vector<double> values = {-3e38, -1e20, -1000.0, -40.0, 0.0, 40.0, 1000.0, 1e20, 3e38};
  const TestTensor x = from_doubles(values, {9}, DType::f32);
  const TestTensor one = from_doubles(std::vector<double>(9, 1.0), {9}, DType::f32);
  for (const Activation kind : kKinds) {
    const TestTensor y({9}, DType::f32), dx({9}, DType::f32);
    activation_forward(x.tensor, kind, y.tensor);
    activation_backward(one.tensor, x.tensor, kind, dx.tensor);
    for (size_t i = 0; i < values.size(); ++i) {
      const double in = to_doubles(x.tensor)[i];
      const double expected = reference::activation(in, kind);
      EXPECT_NEAR(y.tensor.span<float>()[i], expected, 1e-6 * std::fabs(expected) + 1e-30) << in;
      const double slope = reference::activation_slope(in, kind);
      EXPECT_NEAR(dx.tensor.span<float>()[i], slope, 1e-6 * std::fabs(slope) + 1e-30) << in;
    }
  }
}

TEST(Activations, SupportsAliasesAndAnyThreads) {
  const int64_t count = on_gpu() ? 10003 : 100003;
  for (const Activation kind : kKinds) {
    for (const DType dtype : kDTypes) {
      const TestTensor x = random_tensor({count}, dtype, 1), dy = random_tensor({count}, dtype, 2);
      const TestTensor y({count}, dtype), dx({count}, dtype);
      {
        const ThreadCount one(1);
        activation_forward(x.tensor, kind, y.tensor);
        activation_backward(dy.tensor, x.tensor, kind, dx.tensor);
      }
      for (const int threads : {1, 2, 3}) {
        const ThreadCount team(threads);
        const TestTensor in_x = copy_of(x.tensor), in_dy = copy_of(dy.tensor);
        activation_backward(in_dy.tensor, x.tensor, kind, in_dy.tensor);
        expect_same_bits(in_dy.tensor, dx.tensor, "dx in place of dy");
        activation_forward(in_x.tensor, kind, in_x.tensor);
        expect_same_bits(in_x.tensor, y.tensor, "y in place of x");
        const TestTensor again = copy_of(x.tensor);
        activation_backward(dy.tensor, again.tensor, kind, again.tensor);
        expect_same_bits(again.tensor, dx.tensor, "dx in place of x");
      }
    }
  }
}

// Columns that are packs and that are not, and rows of more than one block.
TEST(GatedActivations, BothPassesMatchReference) {
  for (const Activation kind : kKinds) {
    for (const DType dtype : kDTypes) {
      for (const Shape& shape : {Shape{3, 5, 9}, Shape{65, 64}, Shape{2, 2176}, Shape{1, 601}}) {
        SCOPED_TRACE(fmt::format("{} {}", to_string(dtype), shape.numel()));
        const int64_t columns = shape[-1], rows = shape.numel() / columns;
        const TestTensor gate_up = random_tensor({rows, 2 * columns}, dtype, 1, 2.0f);
        const TestTensor dy = random_tensor({rows, columns}, dtype, 2);
        const TestTensor y({rows, columns}, dtype), dgate_up({rows, 2 * columns}, dtype);
        gated_activation_forward(gate_up.tensor, kind, y.tensor);
        gated_activation_backward(dy.tensor, gate_up.tensor, kind, dgate_up.tensor);
        const auto in = to_doubles(gate_up.tensor), dys = to_doubles(dy.tensor);
        std::vector<double> expected, gradient(in.size());
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = 0; c < columns; ++c) {
            const auto gate = static_cast<size_t>(2 * row * columns + c);
            const auto up = gate + static_cast<size_t>(columns);
            const double d = dys[static_cast<size_t>(row * columns + c)];
            const double active = reference::activation(in[gate], kind);
            expected.push_back(active * in[up]);
            gradient[gate] = d * in[up] * reference::activation_slope(in[gate], kind);
            gradient[up] = d * active;
          }
        }
        expect_close(y.tensor, expected, tolerance(dtype), "y");
        expect_close(dgate_up.tensor, gradient, tolerance(dtype), "dgate_up");
        gated_activation_backward(dy.tensor, gate_up.tensor, kind, gate_up.tensor);
        expect_same_bits(gate_up.tensor, dgate_up.tensor, "dgate_up in place of gate_up");
      }
    }
  }
}

TEST(GatedActivations, RefuseWrongArguments) {
  const TestTensor wide({4, 16}, DType::bf16, kMeta), y({4, 8}, DType::bf16, kMeta);
  const TestTensor wrong({4, 15}, DType::bf16, kMeta), other({4, 16}, DType::f32, kMeta);
  gated_activation_forward(wide.tensor, Activation::silu, y.tensor);
  gated_activation_backward(y.tensor, wide.tensor, Activation::silu, wide.tensor);
  expect_error([&] { gated_activation_forward(wrong.tensor, Activation::silu, y.tensor); },
               {"gated_activation_forward", "gate_up", "twice its 8 columns", "(4, 15)"});
  expect_error([&] { gated_activation_forward(other.tensor, Activation::silu, y.tensor); },
               {"gated_activation_forward", "gate_up", "bf16", "fp32"});
  expect_error(
      [&] { gated_activation_backward(y.tensor, wide.tensor, Activation::silu, wrong.tensor); },
      {"gated_activation_backward", "dgate_up", "(4, 15)"});
}

TEST(Activations, RefusesWrongArguments) {
  const TestTensor x({4, 8}, DType::bf16, kMeta), wrong({4, 9}, DType::bf16, kMeta);
  const TestTensor ids({4, 8}, DType::i32, kMeta);
  activation_forward(x.tensor, Activation::gelu_tanh, x.tensor);
  activation_backward(x.tensor, x.tensor, Activation::gelu, x.tensor);
  expect_error([&] { activation_forward(x.tensor, Activation::gelu_tanh, wrong.tensor); },
               {"activation_forward", "y", "(4, 8)", "(4, 9)"});
  expect_error([&] { activation_forward(ids.tensor, Activation::gelu_tanh, ids.tensor); },
               {"activation_forward", "x", "int32"});
  expect_error(
      [&] { activation_backward(wrong.tensor, x.tensor, Activation::gelu_tanh, x.tensor); },
      {"activation_backward", "dy", "(4, 9)"});
}

}  // namespace
}  // namespace tessera
