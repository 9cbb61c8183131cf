#include "core/ops/muon.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr int64_t kMuonCounts[] = {1, 3, 17, 769, 40001};

TestTensor scale_of(double value) { return from_doubles({{value}}, {1}, DType::f32); }

TEST(Muon, MomentumMatchesReference) {
  const TestTensor half = scale_of(0.5);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool nesterov : {true, false}) {
      for (const int64_t n : kMuonCounts) {
        const TestTensor grad = random_tensor({n}, DType::f32, 1), update({n}, dtype);
        const TestTensor exp_avg = random_tensor({n}, DType::f32, 2);
        const TestTensor alone = copy_of(exp_avg.tensor);
        auto m = to_doubles(exp_avg.tensor), expected = m;
        const auto g = to_doubles(grad.tensor);
        for (size_t i = 0; i < m.size(); ++i) {
          m[i] = 0.75 * m[i] + 0.25 * 0.5 * g[i];
          expected[i] = nesterov ? 0.75 * m[i] + 0.25 * 0.5 * g[i] : m[i];
        }
        const MuonMomentum settings{0.75f, nesterov};
        muon_momentum(settings, half.tensor, grad.tensor, exp_avg.tensor, update.tensor);
        expect_close(exp_avg.tensor, m, 8 * 0x1p-24, "exp_avg");
        expect_close(update.tensor, expected, 8 * 0x1p-24 + unit_roundoff(dtype), "update");
        muon_momentum(settings, half.tensor, grad.tensor, alone.tensor, {});
        expect_same_bits(alone.tensor, exp_avg.tensor, "exp_avg without update");
      }
    }
  }
}

TEST(Muon, StepMatchesReference) {
  const TestTensor one = scale_of(1.0);
  const MuonStep settings{0.1f, 0.5f};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t n : kMuonCounts) {
      const TestTensor update = random_tensor({n}, dtype, 1), value({n}, dtype);
      const TestTensor master = random_tensor({n}, DType::f32, 2), same = copy_of(master.tensor);
      auto expected = to_doubles(master.tensor);
      const auto u = to_doubles(update.tensor);
      for (size_t i = 0; i < u.size(); ++i) expected[i] = 0.95 * expected[i] - 0.1 * u[i];
      muon_step(settings, one.tensor, update.tensor, master.tensor, value.tensor);
      expect_close(master.tensor, expected, 8 * 0x1p-24, "master");
      expect_same_bits(value.tensor, from_doubles(to_doubles(master.tensor), {n}, dtype).tensor,
                       "value");
      if (dtype == DType::f32) {
        muon_step(settings, one.tensor, update.tensor, same.tensor, same.tensor);
        expect_same_bits(same.tensor, master.tensor, "the value is the master");
        continue;
      }
      MuonStep random = settings;
      random.rounding = StochasticRounding{{5, RandomPurpose::stochastic_rounding, 0, 3}};
      muon_step(random, one.tensor, update.tensor, same.tensor, value.tensor);
      expect_same_bits(same.tensor, master.tensor, "master");
      const TestTensor rounded({n}, dtype);
      round_stochastically(master.tensor, *random.rounding, rounded.tensor);
      expect_same_bits(value.tensor, rounded.tensor, "value");
    }
  }
}

TEST(Muon, NaNScaleChangesNoState) {
  const TestTensor nan = scale_of(std::nan("")), grad = random_tensor({1001}, DType::f32, 1);
  const TestTensor state = random_tensor({1001}, DType::f32, 2), before = copy_of(state.tensor);
  const TestTensor update = random_tensor({1001}, DType::bf16, 3), zeros({1001}, DType::bf16);
  const TestTensor value({1001}, DType::bf16);
  muon_momentum({}, nan.tensor, grad.tensor, state.tensor, update.tensor);
  expect_same_bits(state.tensor, before.tensor, "exp_avg");
  expect_same_bits(update.tensor, zeros.tensor, "update");
  muon_step({0.1f, 0.5f}, nan.tensor, update.tensor, state.tensor, value.tensor);
  expect_same_bits(state.tensor, before.tensor, "master");
  expect_same_bits(value.tensor, zeros.tensor, "value");
}

TEST(Muon, RefusesWrongArguments) {
  const TestTensor one = scale_of(1.0), a({8}, DType::f32), b({8}, DType::f32), c({9}, DType::f32);
  const TestTensor rounded({8}, DType::bf16);
  expect_error([&] { muon_momentum({}, one.tensor, a.tensor, c.tensor, {}); },
               {"muon_momentum", "exp_avg", "8 elements", "(9)"});
  expect_error([&] { muon_momentum({}, one.tensor, a.tensor, b.tensor, b.tensor); },
               {"muon_momentum", "update", "exp_avg"});
  expect_error([&] { muon_momentum({1.0f}, one.tensor, a.tensor, b.tensor, {}); },
               {"muon_momentum", "momentum", "[0, 1)"});
  expect_error([&] { muon_step({}, one.tensor, a.tensor, b.tensor, rounded.tensor); },
               {"muon_step", "value", "fp32"});
  expect_error([&] { muon_step({}, one.tensor, a.tensor, a.tensor, a.tensor); },
               {"muon_step", "master", "update"});
  MuonStep rounding;
  rounding.rounding = StochasticRounding{};
  expect_error([&] { muon_step(rounding, one.tensor, a.tensor, b.tensor, b.tensor); },
               {"muon_step", "bf16", "value"});
}

}  // namespace
}  // namespace tessera
