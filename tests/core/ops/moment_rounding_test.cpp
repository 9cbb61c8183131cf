// Moments in bf16, which are rounded stochastically.

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "core/ops/adamw.h"
#include "core/ops/lion.h"
#include "core/ops/muon.h"
#include "core/range.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

const RandomKey kMomentKey{42, RandomPurpose::moment_rounding, 0, 7};

/// Whole tensors and slices, with and without runs of a multiple of 4.
const std::vector<StochasticRounding> kMomentRoundings = {
    {kMomentKey}, {kMomentKey, {}, 3}, {kMomentKey, {16, 64, 32}}, {kMomentKey, {7, 21, 14}, 2}};

enum class Moment { first, second };

/// `moment`, (n) fp32, rounded by the contract of adamw_step().
std::vector<double> rounded(const Tensor& moment, const StochasticRounding& rounding,
                            Moment which) {
  std::vector<double> result;
  const std::vector<double> values = to_doubles(moment);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t word = random_bits(rounding.key, rounding.element(static_cast<int64_t>(i)));
    const uint32_t half = which == Moment::first ? word : word >> 16;
    const bfloat16 bits = round_stochastically(static_cast<float>(values[i]), half);
    result.push_back(static_cast<double>(static_cast<float>(bits)));
  }
  return result;
}

/// The buffers of a step, with moments of `dtype` that bf16 represents.
struct Moments {
  Moments(int64_t n, DType dtype, DType value_dtype = DType::bf16)
      : grad(random_tensor({n}, DType::f32, 1)),
        exp_avg(moment(n, 2, dtype)),
        exp_avg_sq(moment(n, 3, dtype)),
        master(random_tensor({n}, DType::f32, 4)),
        value({n}, value_dtype),
        scale(from_doubles({{0.5}}, {1}, DType::f32)) {}

  static TestTensor moment(int64_t n, uint64_t seed, DType dtype) {
    std::vector<double> values = to_doubles(random_tensor({n}, DType::bf16, seed).tensor);
    for (double& value : values) value = seed == 3 ? std::abs(value) : value;
    return from_doubles(values, {n}, dtype);
  }

  TestTensor grad, exp_avg, exp_avg_sq, master, value, scale;
};

TEST(MomentRounding, StoresRoundedMomentsAndKeepsTheUpdate) {
  for (const int64_t n : {1, 3, 1027, 40003}) {
    for (const StochasticRounding& rounding : kMomentRoundings) {
      for (const bool round_values : {false, true}) {
        Moments whole(n, DType::f32), half(n, DType::bf16);
        for (Moments* s : {&whole, &half}) {
          AdamW settings{1e-2f, 0.9f, 0.99f, 1e-8f, 0.1f, 3};
          if (round_values) settings.rounding = kMomentRoundings[1];
          if (s == &half) settings.moment_rounding = rounding;
          adamw_step(settings, s->scale.tensor, s->grad.tensor, s->exp_avg.tensor,
                     s->exp_avg_sq.tensor, s->master.tensor, s->value.tensor);
        }
        expect_same_bits(half.master.tensor, whole.master.tensor, "master");
        expect_same_bits(half.value.tensor, whole.value.tensor, "value");
        EXPECT_EQ(to_doubles(half.exp_avg.tensor),
                  rounded(whole.exp_avg.tensor, rounding, Moment::first));
        EXPECT_EQ(to_doubles(half.exp_avg_sq.tensor),
                  rounded(whole.exp_avg_sq.tensor, rounding, Moment::second));

        Moments lion_whole(n, DType::f32), lion_half(n, DType::bf16);
        for (Moments* s : {&lion_whole, &lion_half}) {
          Lion settings{1e-3f, 0.9f, 0.99f, 0.1f};
          if (round_values) settings.rounding = kMomentRoundings[1];
          if (s == &lion_half) settings.moment_rounding = rounding;
          lion_step(settings, s->scale.tensor, s->grad.tensor, s->exp_avg.tensor, s->master.tensor,
                    s->value.tensor);
        }
        expect_same_bits(lion_half.master.tensor, lion_whole.master.tensor, "lion's master");
        expect_same_bits(lion_half.value.tensor, lion_whole.value.tensor, "lion's value");
        EXPECT_EQ(to_doubles(lion_half.exp_avg.tensor),
                  rounded(lion_whole.exp_avg.tensor, rounding, Moment::first));

        // As on a rank that takes another weight, without an update.
        Moments muon_whole(n, DType::f32), muon_half(n, DType::bf16);
        const TestTensor alone = copy_of(muon_half.exp_avg.tensor);
        MuonMomentum settings{0.75f, true};
        muon_momentum(settings, muon_whole.scale.tensor, muon_whole.grad.tensor,
                      muon_whole.exp_avg.tensor, muon_whole.value.tensor);
        settings.moment_rounding = rounding;
        muon_momentum(settings, muon_half.scale.tensor, muon_half.grad.tensor,
                      muon_half.exp_avg.tensor, muon_half.value.tensor);
        muon_momentum(settings, muon_half.scale.tensor, muon_half.grad.tensor, alone.tensor, {});
        expect_same_bits(muon_half.value.tensor, muon_whole.value.tensor, "muon's update");
        expect_same_bits(alone.tensor, muon_half.exp_avg.tensor, "muon's momentum alone");
        EXPECT_EQ(to_doubles(muon_half.exp_avg.tensor),
                  rounded(muon_whole.exp_avg.tensor, rounding, Moment::first));
      }
    }
  }
}

TEST(MomentRounding, MeanOfManyStepsIsExact) {
  // With beta2 = 0.999 a second moment near a third of g² changes by less than half of a last place
  // of bf16, so that rounding to nearest would stop there.
  constexpr int64_t kCount = 4096;
  constexpr int kSteps = 1000;
  const TestTensor grad({kCount}, DType::f32), exp_avg({kCount}, DType::bf16),
      exp_avg_sq({kCount}, DType::bf16), master({kCount}, DType::f32),
      scale = from_doubles({{1.0}}, {1}, DType::f32);
  for (float& g : grad.tensor.span<float>()) g = 1.0f;
  AdamW settings{1e-3f, 0.99f, 0.999f, 1e-8f, 0.0f, 1};
  settings.moment_rounding = {kMomentKey};
  double m = 0.0, v = 0.0;
  for (int step = 1; step <= kSteps; ++step) {
    settings.step = step;
    settings.moment_rounding->key.step = static_cast<uint32_t>(step);
    adamw_step(settings, scale.tensor, grad.tensor, exp_avg.tensor, exp_avg_sq.tensor,
               master.tensor, master.tensor);
    m += (1.0 - double{settings.beta1}) * (1.0 - m);
    v += (1.0 - double{settings.beta2}) * (1.0 - v);
  }
  const auto expect_mean = [&](const Tensor& moment, double expected, double beta) {
    double sum = 0.0;
    for (const double value : to_doubles(moment)) sum += value;
    // A rounding has a standard deviation of at most half of a last place, 2⁻⁹, and the running
    // mean keeps those of its last steps: Σ beta²ⁱ = 1 / (1 − beta²). Five standard deviations of
    // the mean of all elements.
    const double deviation = 0x1p-9 / std::sqrt((1.0 - beta * beta) * kCount);
    EXPECT_NEAR(sum / kCount, expected, 5.0 * deviation);
  };
  expect_mean(exp_avg.tensor, m, double{settings.beta1});
  expect_mean(exp_avg_sq.tensor, v, double{settings.beta2});
}

TEST(MomentRounding, BitsDoNotDependOnRangesOrThreads) {
  constexpr int64_t kCount = 100003, kCut = 33333;
  const GlobalIndex index{1000, 3000, 1000};
  AdamW settings{1e-2f, 0.9f, 0.99f, 1e-8f, 0.1f, 3};
  Moments whole(kCount, DType::bf16);
  const auto step = [&](Moments& s, Range piece) {
    const auto part = [&](const TestTensor& t) { return t.tensor.slice(piece.begin, piece.end); };
    settings.moment_rounding = {kMomentKey, index, piece.begin};
    adamw_step(settings, s.scale.tensor, part(s.grad), part(s.exp_avg), part(s.exp_avg_sq),
               part(s.master), part(s.value));
  };
  {
    const ThreadCount one(1);
    step(whole, {0, kCount});
  }
  for (const int threads : {1, 3}) {
    const ThreadCount count(threads);
    Moments s(kCount, DType::bf16);
    step(s, {0, kCut});
    step(s, {kCut, kCount});
    expect_same_bits(s.exp_avg.tensor, whole.exp_avg.tensor, "exp_avg");
    expect_same_bits(s.exp_avg_sq.tensor, whole.exp_avg_sq.tensor, "exp_avg_sq");
    expect_same_bits(s.master.tensor, whole.master.tensor, "master");
  }
}

TEST(MomentRounding, NaNScaleChangesNothing) {
  Moments s(1001, DType::bf16);
  const TestTensor exp_avg = copy_of(s.exp_avg.tensor), exp_avg_sq = copy_of(s.exp_avg_sq.tensor);
  s.scale = from_doubles({{std::nan("")}}, {1}, DType::f32);
  AdamW adamw;
  Lion lion;
  MuonMomentum muon;
  adamw.moment_rounding = lion.moment_rounding = muon.moment_rounding = {kMomentKey};
  adamw_step(adamw, s.scale.tensor, s.grad.tensor, s.exp_avg.tensor, s.exp_avg_sq.tensor,
             s.master.tensor, s.value.tensor);
  lion_step(lion, s.scale.tensor, s.grad.tensor, s.exp_avg.tensor, s.master.tensor, s.value.tensor);
  muon_momentum(muon, s.scale.tensor, s.grad.tensor, s.exp_avg.tensor, s.value.tensor);
  expect_same_bits(s.exp_avg.tensor, exp_avg.tensor, "exp_avg");
  expect_same_bits(s.exp_avg_sq.tensor, exp_avg_sq.tensor, "exp_avg_sq");
}

TEST(MomentRounding, IsOfBf16MomentsAlone) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Moments s(8, dtype);
    std::optional<StochasticRounding> wrong;
    if (dtype == DType::f32) wrong = {kMomentKey};
    const char* expected = dtype == DType::f32 ? "must be bf16" : "must be fp32";
    AdamW adamw;
    adamw.moment_rounding = wrong;
    expect_error(
        [&] {
          adamw_step(adamw, s.scale.tensor, s.grad.tensor, s.exp_avg.tensor, s.exp_avg_sq.tensor,
                     s.master.tensor, s.value.tensor);
        },
        {"adamw_step", "exp_avg", expected});
    Lion lion;
    lion.moment_rounding = wrong;
    expect_error(
        [&] {
          lion_step(lion, s.scale.tensor, s.grad.tensor, s.exp_avg.tensor, s.master.tensor,
                    s.value.tensor);
        },
        {"lion_step", "exp_avg", expected});
    MuonMomentum muon;
    muon.moment_rounding = wrong;
    expect_error(
        [&] {
          muon_momentum(muon, s.scale.tensor, s.grad.tensor, s.exp_avg.tensor, s.value.tensor);
        },
        {"muon_momentum", "exp_avg", expected});
  }
}

}  // namespace
}  // namespace tessera
