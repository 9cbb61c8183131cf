#include "core/ops/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/range.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

const AdamW kSettings = {1e-2f, 0.9f, 0.99f, 1e-8f, 0.1f, 1};
constexpr double kScale = 0.5;

/// A weight's buffers; the second moment is positive.
struct State {
  explicit State(int64_t n, DType dtype = DType::f32)
      : grad(random_tensor({n}, DType::f32, 1)),
        exp_avg(random_tensor({n}, DType::f32, 2)),
        exp_avg_sq(random_tensor({n}, DType::f32, 3)),
        master(random_tensor({n}, DType::f32, 4)),
        value({n}, dtype),
        grad_scale(from_doubles({{kScale}}, {1}, DType::f32)) {
    for (float& v : exp_avg_sq.tensor.span<float>()) v *= v;
  }
  void step(const AdamW& settings, const Tensor& out) {
    adamw_step(settings, grad_scale.tensor, grad.tensor, exp_avg.tensor, exp_avg_sq.tensor,
               master.tensor, out);
  }

  TestTensor grad, exp_avg, exp_avg_sq, master, value, grad_scale;
};

TEST(AdamW, MatchesReferenceOverManySteps) {
  for (const int64_t n : {1, 3, 17, 65, 769, 40001}) {
    State s(n);
    auto weight = to_doubles(s.master.tensor), m = to_doubles(s.exp_avg.tensor),
         v = to_doubles(s.exp_avg_sq.tensor);
    const auto grad = to_doubles(s.grad.tensor);
    constexpr int kSteps = 5;
    for (int step = 1; step <= kSteps; ++step) {
      AdamW settings = kSettings;
      settings.step = step;
      s.step(settings, s.value.tensor);
      for (size_t i = 0; i < weight.size(); ++i) {
        const auto after = reference::adamw(settings, kScale * grad[i], {weight[i], m[i], v[i]});
        weight[i] = after.weight, m[i] = after.exp_avg, v[i] = after.exp_avg_sq;
      }
    }
    // A few roundings per step.
    const double tolerance = 8 * kSteps * unit_roundoff(DType::f32);
    expect_close(s.master.tensor, weight, tolerance, "master");
    expect_close(s.exp_avg.tensor, m, tolerance, "exp_avg");
    expect_close(s.exp_avg_sq.tensor, v, tolerance, "exp_avg_sq");
    expect_same_bits(s.value.tensor, s.master.tensor, "value");
  }
}

TEST(AdamW, FirstStepHasSizeOfLearningRate) {
  State s(100);
  for (float& value : s.exp_avg.tensor.span<float>()) value = 0.0f;
  for (float& value : s.exp_avg_sq.tensor.span<float>()) value = 0.0f;
  const auto before = to_doubles(s.master.tensor);
  AdamW settings = kSettings;
  settings.weight_decay = 0.0f;
  s.step(settings, s.master.tensor);
  const auto after = to_doubles(s.master.tensor);
  for (size_t i = 0; i < before.size(); ++i) {
    const float grad = s.grad.tensor.span<float>()[i];
    EXPECT_NEAR(after[i] - before[i], std::copysign(settings.lr, -grad), 1e-6);
  }
}

TEST(AdamW, ValueIsMasterOrItsRounding) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    State separate(1001, dtype), same(1001);
    separate.step(kSettings, separate.value.tensor);
    same.step(kSettings, same.master.tensor);
    expect_same_bits(same.master.tensor, separate.master.tensor, "master");
    const TestTensor rounded = from_doubles(to_doubles(same.master.tensor), {1001}, dtype);
    expect_same_bits(separate.value.tensor, rounded.tensor, "value");
  }
}

TEST(AdamW, BitsDoNotDependOnRangesOrThreads) {
  constexpr int64_t kCount = 100003, kCut = 33333;
  State whole(kCount, DType::bf16);
  {
    const ThreadCount one(1);
    whole.step(kSettings, whole.value.tensor);
  }
  for (const int threads : {1, 2, 3}) {
    const ThreadCount count(threads);
    State s(kCount, DType::bf16);
    for (const Range piece : {Range{0, kCut}, Range{kCut, kCount}}) {
      const auto part = [&](const TestTensor& t) { return t.tensor.slice(piece.begin, piece.end); };
      adamw_step(kSettings, s.grad_scale.tensor, part(s.grad), part(s.exp_avg), part(s.exp_avg_sq),
                 part(s.master), part(s.value));
    }
    expect_same_bits(s.master.tensor, whole.master.tensor, "master");
    expect_same_bits(s.exp_avg.tensor, whole.exp_avg.tensor, "exp_avg");
    expect_same_bits(s.exp_avg_sq.tensor, whole.exp_avg_sq.tensor, "exp_avg_sq");
    expect_same_bits(s.value.tensor, whole.value.tensor, "value");
  }
}

TEST(AdamW, NaNScaleChangesNothing) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    State s(1001, dtype);
    s.step(kSettings, s.value.tensor);
    const TestTensor exp_avg = copy_of(s.exp_avg.tensor), value = copy_of(s.value.tensor);
    const TestTensor exp_avg_sq = copy_of(s.exp_avg_sq.tensor), master = copy_of(s.master.tensor);
    s.grad_scale = from_doubles({{std::nan("")}}, {1}, DType::f32);
    s.step(kSettings, s.value.tensor);
    expect_same_bits(s.exp_avg.tensor, exp_avg.tensor, "exp_avg");
    expect_same_bits(s.exp_avg_sq.tensor, exp_avg_sq.tensor, "exp_avg_sq");
    expect_same_bits(s.master.tensor, master.tensor, "master");
    expect_same_bits(s.value.tensor, value.tensor, "value");
  }
}

TEST(AdamW, RefusesWrongArguments) {
  const TestTensor meta({8}, DType::f32, kMeta), rounded({8}, DType::bf16, kMeta);
  const TestTensor meta_scale({1}, DType::f32, kMeta);
  adamw_step(kSettings, meta_scale.tensor, meta.tensor, meta.tensor, meta.tensor, meta.tensor,
             rounded.tensor);
  State s(8), longer(9);
  const auto step = [&](const AdamW& settings, const Tensor& exp_avg, const Tensor& value) {
    adamw_step(settings, s.grad_scale.tensor, s.grad.tensor, exp_avg, s.exp_avg_sq.tensor,
               s.master.tensor, value);
  };
  expect_error([&] { step(kSettings, longer.exp_avg.tensor, s.value.tensor); },
               {"adamw_step", "exp_avg", "8 elements", "(9)"});
  expect_error([&] { step(kSettings, rounded.tensor, s.value.tensor); },
               {"adamw_step", "exp_avg", "fp32"});
  expect_error([&] { step(kSettings, s.exp_avg_sq.tensor, s.value.tensor); },
               {"adamw_step", "exp_avg", "exp_avg_sq"});
  expect_error([&] { step(kSettings, s.exp_avg.tensor, s.grad.tensor); },
               {"adamw_step", "value", "grad"});
  expect_error([&] { step(kSettings, s.exp_avg.tensor, s.exp_avg_sq.tensor); },
               {"adamw_step", "exp_avg_sq", "value"});
  s.grad_scale = TestTensor({1}, DType::f64);
  expect_error([&] { step(kSettings, s.exp_avg.tensor, s.value.tensor); },
               {"adamw_step", "grad_scale", "fp32"});
  s.grad_scale = TestTensor({2}, DType::f32);
  expect_error([&] { step(kSettings, s.exp_avg.tensor, s.value.tensor); },
               {"adamw_step", "grad_scale", "(1)"});
  s.grad_scale = TestTensor({1}, DType::f32);
  AdamW unset = kSettings;
  unset.step = 0;
  expect_error([&] { step(unset, s.exp_avg.tensor, s.value.tensor); }, {"adamw_step", "step is 0"});
  AdamW beta = kSettings;
  beta.beta2 = 1.0f;
  expect_error([&] { step(beta, s.exp_avg.tensor, s.value.tensor); }, {"adamw_step", "beta2"});
}

}  // namespace
}  // namespace tessera
