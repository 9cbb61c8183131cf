#include "launch/generation/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

const std::vector<float> kLogits = {std::log(0.1f), std::log(0.5f), std::log(0.15f),
                                    std::log(0.25f)};

std::map<int32_t, int> count_choices(const SamplingOptions& options, int draws) {
  Sampler sampler(options);
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sampler.choose(kLogits, static_cast<uint64_t>(i))];
  return counts;
}

TEST(Sampler, FollowsProbabilities) {
  constexpr int kDraws = 20000;
  auto counts = count_choices({}, kDraws);
  const std::vector<double> expected = {0.1, 0.5, 0.15, 0.25};
  for (int32_t token = 0; token < 4; ++token) {
    const double p = expected[static_cast<size_t>(token)];
    // Five standard deviations of a binomial.
    EXPECT_NEAR(counts[token], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << token;
  }
}

TEST(Sampler, TemperatureZeroPicksLikeliest) {
  SamplingOptions options;
  options.temperature = 0.0;
  EXPECT_EQ(count_choices(options, 50)[1], 50);
}

TEST(Sampler, TopKAndTopPKeepLikeliest) {
  SamplingOptions top_k;
  top_k.top_k = 2;
  const auto by_k = count_choices(top_k, 1000);
  EXPECT_EQ(by_k.count(0) + by_k.count(2), 0U);
  EXPECT_EQ(by_k.count(1) + by_k.count(3), 2U);

  SamplingOptions top_p;
  top_p.top_p = 0.8;  // 0.5 + 0.25 is less, so a third token is kept
  const auto by_p = count_choices(top_p, 1000);
  EXPECT_EQ(by_p.count(0), 0U);
  EXPECT_EQ(by_p.size(), 3U);
}

TEST(Sampler, PenaltyChangesLogitsOfSeenTokensBeforeAllElse) {
  // Logits of both signs, so that the order of the likeliest changes.
  const std::vector<float> logits = {2.0f, -1.0f, 1.5f, 0.0f, -0.5f};
  const struct {
    double penalty;
    std::vector<int32_t> seen;
    SamplingOptions options;
    std::vector<double> expected;  // unnormalized probabilities
  } cases[] = {
      {1.0, {0, 1}, {}, {std::exp(2.0), std::exp(-1.0), std::exp(1.5), 1.0, std::exp(-0.5)}},
      {2.0, {}, {}, {std::exp(2.0), std::exp(-1.0), std::exp(1.5), 1.0, std::exp(-0.5)}},
      {2.0, {0, 1, 0}, {}, {std::exp(1.0), std::exp(-2.0), std::exp(1.5), 1.0, std::exp(-0.5)}},
      {0.5, {1, 3}, {}, {std::exp(2.0), std::exp(-0.5), std::exp(1.5), 1.0, std::exp(-0.5)}},
      {2.0, {0, 4}, {.temperature = 0.5, .top_k = 3}, {std::exp(2.0), 0, std::exp(3.0), 1.0, 0}},
      // exp(1.5) is 0.49 and exp(1.0) is 0.30 of the sum.
      {2.0, {0}, {.top_p = 0.75}, {std::exp(1.0), 0, std::exp(1.5), 0, 0}},
  };
  constexpr int kDraws = 4000;
  for (const auto& [penalty, seen, base, expected] : cases) {
    SCOPED_TRACE(testing::PrintToString(std::pair(penalty, seen)));
    SamplingOptions options = base;
    options.repetition_penalty = penalty;
    std::vector<int> counts(logits.size());
    for (int i = 0; i < kDraws; ++i) {
      Sampler sampler(options, i);  // each a text of its own, because a choice is seen
      sampler.see(seen);
      ++counts[static_cast<size_t>(sampler.choose(logits, 0))];
    }
    const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
    for (size_t token = 0; token < logits.size(); ++token) {
      const double p = expected[token] / sum;
      EXPECT_NEAR(counts[token], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << token;
    }
  }
}

TEST(Sampler, PenaltySeesChosenTokens) {
  SamplingOptions options;
  options.temperature = 0.0;
  options.repetition_penalty = 1.5;
  Sampler sampler(options);
  const std::vector<float> logits = {3.0f, 2.5f, -1.0f, 2.1f};
  std::vector<int32_t> chosen;
  for (uint64_t i = 0; i < 5; ++i) chosen.push_back(sampler.choose(logits, i));
  EXPECT_EQ(chosen, (std::vector<int32_t>{0, 1, 3, 0, 0}));  // 3 / 1.5 is 2, 2.5 / 1.5 is 1.67
}

TEST(Sampler, TextsHaveTheirOwnRandomNumbers) {
  int same = 0;
  Sampler first({}, 0), second({}, 1), again({}, 1);
  for (uint64_t i = 0; i < 1000; ++i) {
    const int32_t token = second.choose(kLogits, i);
    EXPECT_EQ(again.choose(kLogits, i), token);
    same += first.choose(kLogits, i) == token ? 1 : 0;
  }
  // Two independent draws agree with the sum of the squares of the probabilities, 0.345.
  EXPECT_NEAR(same, 345, 5 * std::sqrt(1000 * 0.345 * 0.655));
}

TEST(Sampler, IsDeterministicForSeedAndPosition) {
  Sampler first({}), second({});
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(first.choose(kLogits, i), second.choose(kLogits, i));
  }
}

TEST(Sampler, NeverChoosesImpossibleTokens) {
  Sampler sampler({});
  const std::vector<float> logits = {-std::numeric_limits<float>::infinity(), 0.0f};
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sampler.choose(logits, i), 1);
  const std::vector<float> damaged(3, std::nanf(""));
  EXPECT_THROW(sampler.choose(damaged, 0), Error);
}

TEST(Sampler, NamesOptionsOutOfRange) {
  test::expect_error([] { check(SamplingOptions{.top_p = 1.5}); }, {"--top-p is 1.5"});
  for (const double penalty : {0.0, -1.0, HUGE_VAL, std::nan("")}) {
    test::expect_error([&] { check(SamplingOptions{.repetition_penalty = penalty}); },
                       {"--repetition-penalty is", "positive", "1 means no penalty"});
  }
}

}  // namespace
}  // namespace tessera
