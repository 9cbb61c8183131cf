#include "launch/tools/design/scaling.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

/// The size with the lowest expected loss if a machine computes `flops` in all.
ModelSize best_size(double flops, double unique_tokens) {
  ModelSize best;
  double lowest = 1e9;
  for (const ModelSize& size : candidate_sizes()) {
    const auto parameters = static_cast<double>(size.block_weights());
    const double loss = expected_loss({.parameters = parameters,
                                       .tokens = flops / (6.0 * parameters),
                                       .unique_tokens = unique_tokens});
    if (loss >= lowest) continue;
    lowest = loss;
    best = size;
  }
  return best;
}

TEST(Scaling, MoreWorkMeansALargerModel) {
  constexpr double kPlenty = 1e12;
  int64_t last = 0;
  for (const double flops : {1e12, 1e14, 1e16, 1e18}) {
    const ModelSize best = best_size(flops, kPlenty);
    EXPECT_GT(best.block_weights(), last) << flops;
    last = best.block_weights();
  }
}

TEST(Scaling, RepeatedTokensAreWorthLess) {
  const TrainingAmount fresh = {.parameters = 1e6, .tokens = 1e8, .unique_tokens = 1e8};
  TrainingAmount repeated = fresh;
  repeated.unique_tokens = 1e6;
  EXPECT_GT(expected_loss(repeated), expected_loss(fresh));
  // Beyond some ten epochs, nearly nothing.
  TrainingAmount more = repeated;
  more.tokens *= 10.0;
  EXPECT_NEAR(expected_loss(more), expected_loss(repeated), 0.01);
  EXPECT_GT(dropout_for(repeated), dropout_for(fresh));
}

TEST(Scaling, LargerTextsHaveLargerVocabularies) {
  EXPECT_EQ(vocabulary_for(0), vocabulary_for(100'000));
  EXPECT_LT(vocabulary_for(1'000'000), vocabulary_for(10'000'000));
  EXPECT_EQ(vocabulary_for(1'000'000'000), vocabulary_for(1'000'000'000'000));
}

}  // namespace
}  // namespace tessera
