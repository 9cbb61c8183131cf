#include "launch/tools/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "core/error.h"

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
  SamplingOptions options;
  options.top_p = 1.5;
  try {
    check(options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--top-p is 1.5"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
