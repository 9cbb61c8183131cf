#include "core/ops/lion.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/range.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

const Lion kLion = {1e-3f, 0.9f, 0.99f, 0.1f};
constexpr double kLionScale = 0.5;

struct LionBuffers {
  explicit LionBuffers(int64_t n, DType dtype = DType::f32)
      : grad(random_tensor({n}, DType::f32, 1)),
        exp_avg(random_tensor({n}, DType::f32, 2)),
        master(random_tensor({n}, DType::f32, 4)),
        value({n}, dtype),
        grad_scale(from_doubles({{kLionScale}}, {1}, DType::f32)) {}
  void step(const Lion& settings, const Tensor& out) const {
    lion_step(settings, grad_scale.tensor, grad.tensor, exp_avg.tensor, master.tensor, out);
  }

  TestTensor grad, exp_avg, master, value, grad_scale;
};

TEST(Lion, MatchesReferenceOverManySteps) {
  for (const int64_t n : {1, 3, 17, 65, 769, 40001}) {
    LionBuffers s(n);
    auto weight = to_doubles(s.master.tensor), m = to_doubles(s.exp_avg.tensor);
    constexpr int kSteps = 10;
    for (int step = 1; step <= kSteps; ++step) {
      s.grad = random_tensor({n}, DType::f32, static_cast<uint64_t>(100 + step));
      if (n > 2) s.grad.tensor.span<float>()[2] = s.exp_avg.tensor.span<float>()[2] = 0.0f;
      if (n > 2) m[2] = 0.0;  // the sign of 0 is 0
      const auto grad = to_doubles(s.grad.tensor);
      s.step(kLion, s.master.tensor);
      for (size_t i = 0; i < weight.size(); ++i) {
        const auto after = reference::lion(kLion, kLionScale * grad[i], {weight[i], m[i]});
        weight[i] = after.weight, m[i] = after.exp_avg;
      }
    }
    // Each step rounds a few times.
    const double tolerance = kSteps * 8 * 0x1p-24;
    expect_close(s.master.tensor, weight, tolerance, "master");
    expect_close(s.exp_avg.tensor, m, tolerance, "exp_avg");
  }
}

TEST(Lion, ValueIsMasterOrItsRounding) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const LionBuffers separate(1001, dtype), same(1001);
    separate.step(kLion, separate.value.tensor);
    same.step(kLion, same.master.tensor);
    expect_same_bits(same.master.tensor, separate.master.tensor, "master");
    const TestTensor rounded = from_doubles(to_doubles(same.master.tensor), {1001}, dtype);
    expect_same_bits(separate.value.tensor, rounded.tensor, "value");
  }
}

TEST(Lion, RoundsMastersStochastically) {
  const StochasticRounding rounding{{5, RandomPurpose::stochastic_rounding, 0, 3}};
  for (const int64_t n : {7, 40001}) {
    const LionBuffers nearest(n, DType::bf16), random(n, DType::bf16);
    nearest.step(kLion, nearest.value.tensor);
    Lion settings = kLion;
    settings.rounding = rounding;
    random.step(settings, random.value.tensor);
    expect_same_bits(random.master.tensor, nearest.master.tensor, "master");
    expect_same_bits(random.exp_avg.tensor, nearest.exp_avg.tensor, "exp_avg");
    const TestTensor expected({n}, DType::bf16);
    round_stochastically(random.master.tensor, rounding, expected.tensor);
    expect_same_bits(random.value.tensor, expected.tensor, "value");
  }
}

TEST(Lion, BitsDoNotDependOnRangesOrThreads) {
  constexpr int64_t kCount = 100003, kCut = 33333;
  const LionBuffers whole(kCount, DType::bf16);
  {
    const ThreadCount one(1);
    whole.step(kLion, whole.value.tensor);
  }
  for (const int threads : {1, 3}) {
    const ThreadCount count(threads);
    const LionBuffers s(kCount, DType::bf16);
    for (const Range piece : {Range{0, kCut}, Range{kCut, kCount}}) {
      const auto part = [&](const TestTensor& t) { return t.tensor.slice(piece.begin, piece.end); };
      lion_step(kLion, s.grad_scale.tensor, part(s.grad), part(s.exp_avg), part(s.master),
                part(s.value));
    }
    expect_same_bits(s.master.tensor, whole.master.tensor, "master");
    expect_same_bits(s.exp_avg.tensor, whole.exp_avg.tensor, "exp_avg");
    expect_same_bits(s.value.tensor, whole.value.tensor, "value");
  }
}

TEST(Lion, NaNScaleChangesNothing) {
  LionBuffers s(1001, DType::bf16);
  s.step(kLion, s.value.tensor);
  const TestTensor exp_avg = copy_of(s.exp_avg.tensor), value = copy_of(s.value.tensor);
  const TestTensor master = copy_of(s.master.tensor);
  s.grad_scale = from_doubles({{std::nan("")}}, {1}, DType::f32);
  s.step(kLion, s.value.tensor);
  expect_same_bits(s.exp_avg.tensor, exp_avg.tensor, "exp_avg");
  expect_same_bits(s.master.tensor, master.tensor, "master");
  expect_same_bits(s.value.tensor, value.tensor, "value");
}

TEST(Lion, RefusesWrongArguments) {
  const LionBuffers s(8), longer(9);
  const auto step = [&](const Lion& settings, const Tensor& exp_avg, const Tensor& value) {
    lion_step(settings, s.grad_scale.tensor, s.grad.tensor, exp_avg, s.master.tensor, value);
  };
  expect_error([&] { step(kLion, longer.exp_avg.tensor, s.value.tensor); },
               {"lion_step", "exp_avg", "8 elements", "(9)"});
  expect_error([&] { step(kLion, s.master.tensor, s.value.tensor); },
               {"lion_step", "exp_avg", "master"});
  expect_error([&] { step(kLion, s.exp_avg.tensor, s.grad.tensor); },
               {"lion_step", "value", "grad"});
  Lion beta = kLion;
  beta.beta2 = 1.0f;
  expect_error([&] { step(beta, s.exp_avg.tensor, s.value.tensor); }, {"lion_step", "beta2"});
  Lion rounding = kLion;
  rounding.rounding = StochasticRounding{};
  expect_error([&] { step(rounding, s.exp_avg.tensor, s.value.tensor); },
               {"lion_step", "bf16", "value"});
}

}  // namespace
}  // namespace tessera
