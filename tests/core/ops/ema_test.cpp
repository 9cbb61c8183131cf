#include "core/ops/ema.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/range.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

TestTensor ema_scale(double value) { return from_doubles({{value}}, {1}, DType::f32); }

TEST(Ema, MatchesReferenceOverManySteps) {
  const TestTensor one = ema_scale(1.0);
  for (const int64_t n : {1, 3, 17, 769, 40001}) {
    const TestTensor ema = random_tensor({n}, DType::f32, 1);
    auto expected = to_doubles(ema.tensor);
    constexpr int kSteps = 10;
    for (int step = 0; step < kSteps; ++step) {
      const TestTensor weight = random_tensor({n}, DType::f32, static_cast<uint64_t>(100 + step));
      const auto w = to_doubles(weight.tensor);
      ema_step(0.9, one.tensor, weight.tensor, ema.tensor);
      for (size_t i = 0; i < w.size(); ++i) expected[i] = 0.9 * expected[i] + 0.1 * w[i];
    }
    expect_close(ema.tensor, expected, kSteps * 4 * 0x1p-24, "ema");
  }
}

// 1 - decay is computed in fp64: in fp32, 1 - 0.999999 would be 5% off.
TEST(Ema, MovesByTheExactRate) {
  const TestTensor one = ema_scale(1.0), weight = ema_scale(1.0), ema = ema_scale(0.0);
  ema_step(0.999999, one.tensor, weight.tensor, ema.tensor);
  EXPECT_FLOAT_EQ(ema.tensor.span<float>()[0], 1e-6f);
}

TEST(Ema, BitsDoNotDependOnRangesOrThreads) {
  constexpr int64_t kCount = 100003, kCut = 33333;
  const TestTensor one = ema_scale(1.0), weight = random_tensor({kCount}, DType::f32, 1);
  const TestTensor before = random_tensor({kCount}, DType::f32, 2), whole = copy_of(before.tensor);
  ema_step(0.99, one.tensor, weight.tensor, whole.tensor);
  for (const int threads : {1, 3}) {
    const ThreadCount count(threads);
    const TestTensor w = copy_of(weight.tensor), ema = copy_of(before.tensor);
    for (const Range piece : {Range{0, kCut}, Range{kCut, kCount}}) {
      const auto part = [&](const TestTensor& t) { return t.tensor.slice(piece.begin, piece.end); };
      ema_step(0.99, one.tensor, part(w), part(ema));
      ema_swap(part(w), part(ema));
    }
    expect_same_bits(w.tensor, whole.tensor, "weight with the bits of the average");
    expect_same_bits(ema.tensor, weight.tensor, "average with the bits of the weight");
  }
}

TEST(Ema, NaNScaleChangesNothing) {
  const TestTensor nan = ema_scale(std::nan("")), weight = random_tensor({1001}, DType::f32, 1);
  const TestTensor ema = random_tensor({1001}, DType::f32, 2), before = copy_of(ema.tensor);
  ema_step(0.5, nan.tensor, weight.tensor, ema.tensor);
  expect_same_bits(ema.tensor, before.tensor, "ema");
}

TEST(Ema, RefusesWrongArguments) {
  const TestTensor one = ema_scale(1.0), a({8}, DType::f32), b({9}, DType::f32);
  const TestTensor rounded({8}, DType::bf16);
  expect_error([&] { ema_step(0.5, one.tensor, a.tensor, b.tensor); },
               {"ema_step", "ema", "8 elements", "(9)"});
  expect_error([&] { ema_step(0.5, one.tensor, rounded.tensor, a.tensor); },
               {"ema_step", "weight", "fp32"});
  expect_error([&] { ema_swap(a.tensor, a.tensor); }, {"ema_swap", "ema", "weight"});
  const TestTensor other({8}, DType::f32);
  expect_error([&] { ema_step(1.0, one.tensor, a.tensor, other.tensor); },
               {"ema_step", "decay", "[0, 1)"});
}

}  // namespace
}  // namespace tessera
