#include "core/ops/clip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr int64_t kLosses = StepRecord::kFirstLoss;

/// A record of two losses without spikes.
std::vector<double> record_of(double step, double norm, double skipped, double last_skipped,
                              double last_norm, double loss_0, double loss_1) {
  return {step, norm, 0.0, skipped, last_skipped, last_norm, 0.0, loss_0, loss_1};
}

TestTensor doubles(const std::vector<double>& values) {
  TestTensor result({static_cast<int64_t>(values.size())}, DType::f64);
  std::copy(values.begin(), values.end(), result.tensor.data<double>());
  return result;
}

/// The tensors that a step reads and writes.
struct Clip {
  void call(int64_t step, double max_norm, double squares, const std::vector<double>& losses,
            int64_t max_skipped_steps = 0) {
    clip_scale(step, {.max_norm = max_norm, .max_skipped_steps = max_skipped_steps},
               doubles({squares}).tensor, doubles(losses).tensor, {}, {record.tensor},
               scale.tensor);
  }
  double scale_now() const { return to_doubles(scale.tensor)[0]; }
  std::vector<double> record_now() const { return to_doubles(record.tensor); }

  TestTensor record = doubles(std::vector<double>(kLosses + 2, 0.0));
  TestTensor scale = from_doubles({{1.0}}, {1}, DType::f32);
};

TEST(ClipScale, MatchesReference) {
  for (const double norm : {0.0, 1e-30, 0.3, 0.999999, 1.0, 1.5, 7.0, 1e30}) {
    for (const double max_norm : {1e-3, 1.0, 10.0}) {
      Clip clip;
      clip.call(7, max_norm, norm * norm, {2.5, -1.0});
      const double root = std::sqrt(norm * norm);
      const double expected = root > max_norm ? max_norm / root : 1.0;
      EXPECT_EQ(clip.scale_now(), static_cast<double>(static_cast<float>(expected))) << norm;
      EXPECT_EQ(clip.record_now(), record_of(7.0, root, 0.0, 0.0, 0.0, 2.5, -1.0));
    }
  }
}

TEST(ClipScale, ZeroMaximumDisablesClipping) {
  Clip clip;
  clip.call(1, 0.0, 1e40, {1.0, 1.0});
  EXPECT_EQ(clip.scale_now(), 1.0);
  EXPECT_EQ(clip.record_now(), record_of(1.0, std::sqrt(1e40), 0.0, 0.0, 0.0, 1.0, 1.0));
}

TEST(ClipScale, IgnoresPreviousScale) {
  Clip clip;
  clip.call(1, 1.0, 1e4, {1.0, 1.0});
  EXPECT_EQ(clip.scale_now(), static_cast<double>(0.01f));
  clip.call(2, 1.0, 0.25, {1.0, 1.0});
  EXPECT_EQ(clip.scale_now(), 1.0);
}

TEST(ClipScale, StaysNaNAfterNonFiniteStep) {
  struct Case {
    double squares;
    std::vector<double> losses;
  };
  for (const Case& bad : {Case{kNaN, {1.0, 1.0}}, Case{kInf, {1.0, 1.0}}, Case{1.0, {kNaN, 1.0}},
                          Case{1.0, {1.0, kInf}}, Case{1.0, {-kInf, 1.0}}}) {
    for (const double max_norm : {0.0, 1.0}) {
      Clip clip;
      clip.call(3, max_norm, 1.0, {1.0, 1.0});
      EXPECT_EQ(clip.scale_now(), 1.0);
      clip.call(4, max_norm, bad.squares, bad.losses);
      const TestTensor failed = copy_of(clip.record.tensor);
      EXPECT_EQ(to_doubles(failed.tensor)[0], 4.0);
      EXPECT_EQ(to_doubles(failed.tensor)[StepRecord::kSkippedSteps], 1.0);
      for (int64_t step = 4; step < 7; ++step) {
        EXPECT_TRUE(std::isnan(clip.scale_now())) << step;
        expect_same_bits(clip.record.tensor, failed.tensor, "the record");
        clip.call(step + 1, max_norm, 1.0, {1.0, 1.0});
      }
    }
  }
}

TEST(ClipScale, SkipsAsManyBadStepsAsAllowed) {
  Clip clip;
  const auto step = [&](int64_t number, double loss) {
    clip.call(number, 1.0, 1.0, {loss, 0.0}, /*max_skipped_steps=*/2);
  };
  step(1, kNaN);
  EXPECT_TRUE(std::isnan(clip.scale_now()));
  step(2, 1.0);
  EXPECT_EQ(clip.scale_now(), 1.0);
  EXPECT_EQ(clip.record_now(), record_of(2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0));
  step(3, kInf);
  EXPECT_TRUE(std::isnan(clip.scale_now()));
  step(4, 0.5);
  EXPECT_EQ(clip.record_now(), record_of(4.0, 1.0, 2.0, 3.0, 1.0, 0.5, 0.0));
  step(5, kInf);
  for (int64_t number = 6; number < 8; ++number) {
    EXPECT_TRUE(std::isnan(clip.scale_now()));
    EXPECT_EQ(clip.record_now(), record_of(5.0, 1.0, 3.0, 5.0, 1.0, kInf, 0.0));
    step(number, 1.0);
  }
}

TEST(ClipScale, WorksWithoutLosses) {
  const TestTensor record = doubles(std::vector<double>(kLosses, 0.0)), scale({1}, DType::f32);
  clip_scale(1, {.max_norm = 1.0}, doubles({16.0}).tensor, TestTensor({0}, DType::f64).tensor, {},
             {record.tensor}, scale.tensor);
  EXPECT_EQ(to_doubles(scale.tensor)[0], 0.25);
}

/// The lower median of the last norms.
double reference_median(std::vector<double> norms) {
  std::sort(norms.begin(), norms.end());
  return norms[(norms.size() - 1) / 2];
}

// Norms that vary by a factor of 4, and sometimes one that is much larger, NaN or 0.
TEST(ClipScale, SkipsSpikesLikeReference) {
  constexpr int64_t kSteps = 90;
  constexpr double kFactor = 3.0;
  for (const int64_t window : {1, 2, 3, 7, 40}) {
    TestTensor history = doubles(std::vector<double>(static_cast<size_t>(1 + window), 0.0));
    TestTensor record = doubles(std::vector<double>(kLosses + 1, 0.0));
    const TestTensor scale({1}, DType::f32);
    std::vector<double> norms;
    double skipped = 0.0;
    for (int64_t step = 1; step <= kSteps; ++step) {
      double norm = 1.0 + static_cast<double>(step * 7 % 13) / 4.0;
      if (step % 11 == 0) norm *= 100.0;
      if (step % 17 == 0) norm = kNaN;
      if (step % 29 == 0) norm = 0.0;
      clip_scale(step, {.max_norm = 2.0, .max_skipped_steps = kSteps, .spike_factor = kFactor},
                 doubles({norm * norm}).tensor, doubles({1.0}).tensor, {history.tensor},
                 {record.tensor}, scale.tensor);
      const bool full = std::ssize(norms) >= window;
      const double median = full ? reference_median({norms.end() - window, norms.end()}) : 0.0;
      const bool spike = median > 0.0 && norm > kFactor * median, bad = spike || std::isnan(norm);
      const double found = to_doubles(scale.tensor)[0];
      EXPECT_EQ(std::isnan(found), bad) << window << " " << step;
      const std::vector<double> now = to_doubles(record.tensor);
      EXPECT_EQ(now[StepRecord::kMedian], median) << window << " " << step;
      if (bad) {
        EXPECT_EQ(now[StepRecord::kSkippedSteps], ++skipped);
        EXPECT_EQ(now[StepRecord::kLastSkippedStep], static_cast<double>(step));
        EXPECT_EQ(now[StepRecord::kLastSkippedMedian], median);
        if (spike) {
          EXPECT_EQ(now[StepRecord::kLastSkippedNorm], norm);
        }
      } else {
        norms.push_back(std::sqrt(norm * norm));
        EXPECT_EQ(found, static_cast<double>(static_cast<float>(norm > 2.0 ? 2.0 / norm : 1.0)));
      }
    }
    EXPECT_EQ(to_doubles(history.tensor)[0], static_cast<double>(norms.size()));
    EXPECT_GT(skipped, 0.0);
  }
}

TEST(ClipScale, RefusesWrongArguments) {
  const TestTensor squares({1}, DType::f64, kMeta), losses({3}, DType::f64, kMeta);
  const TestTensor record({kLosses + 3}, DType::f64, kMeta), scale({1}, DType::f32, kMeta);
  const auto call = [&](double max_norm, const Tensor& s, const Tensor& l, const Tensor& r,
                        const Tensor& out) {
    clip_scale(1, {.max_norm = max_norm}, s, l, {}, {r}, out);
  };
  call(1.0, squares.tensor, losses.tensor, record.tensor, scale.tensor);
  const auto expect_refused = [&](const Tensor& s, const Tensor& l, const Tensor& r,
                                  const Tensor& out, const char* name) {
    expect_error([&] { call(1.0, s, l, r, out); }, {"clip_scale", name});
  };
  const auto &s = squares.tensor, &l = losses.tensor, &r = record.tensor, &out = scale.tensor;
  expect_refused(l, l, r, out, "squares");
  expect_refused(out, l, r, out, "squares");
  expect_refused(s, out, r, out, "losses");
  expect_refused(s, l, l, out, "record");
  expect_refused(s, l, r, s, "grad_scale");
  for (const double max_norm : {-1.0, kNaN, kInf}) {
    expect_error([&] { call(max_norm, s, l, r, out); }, {"clip_scale", "max_norm"});
  }
  const auto expect_rule_refused = [&](const ClipRule& rule, const Tensor& history,
                                       const char* name) {
    expect_error([&] { clip_scale(1, rule, s, l, {history}, {r}, out); }, {"clip_scale", name});
  };
  expect_rule_refused({.max_skipped_steps = -1}, {}, "max_skipped_steps");
  const TestTensor history({4}, DType::f64, kMeta), short_history({1}, DType::f64, kMeta);
  clip_scale(1, {.spike_factor = 1.0}, s, l, {history.tensor}, {r}, out);
  for (const double factor : {-1.0, 0.5, kNaN, kInf}) {
    expect_rule_refused({.spike_factor = factor}, history.tensor, "spike_factor must be 0");
  }
  expect_rule_refused({}, history.tensor, "a history of norms is needed exactly if");
  expect_rule_refused({.spike_factor = 2.0}, {}, "a history of norms is needed exactly if");
  expect_rule_refused({.spike_factor = 2.0}, short_history.tensor, "must have room for a norm");
  expect_rule_refused({.spike_factor = 2.0}, out, "history");
  const TestTensor shared({kLosses + 3}, DType::f64);
  expect_error(
      [&] {
        call(1.0, TestTensor({1}, DType::f64).tensor, shared.tensor.slice(0, 3), shared.tensor,
             TestTensor({1}, DType::f32).tensor);
      },
      {"clip_scale", "record", "losses"});
}

}  // namespace
}  // namespace tessera
