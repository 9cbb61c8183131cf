#include "launch/tools/design/scaling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/prepare/prepare.h"
#include "launch/tools/design/hold_out.h"
#include "tests/support/test_folder.h"

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

std::string text_in(const std::string& prefix) {
  const IndexedDataset dataset(prefix);
  std::vector<int32_t> ids(static_cast<size_t>(dataset.num_tokens()));
  dataset.read_tokens(0, ids);
  std::string text;
  for (const int32_t id : ids) {
    if (id < 256) text += static_cast<char>(id);
  }
  return text;
}

TEST(HoldOut, TakesPiecesFromEverywhere) {
  const test::TestFolder folder;
  std::string text;
  for (const char letter : {'a', 'b', 'c', 'd'}) text += std::string(25'000, letter);
  std::ofstream(folder / "text.txt") << text;
  const std::string data = folder / "data", held = folder / "held";
  prepare({.input = {.inputs = {folder / "text.txt"}}, .append_end = true, .output = data});
  hold_out(data, 0.1, held);
  const std::string rest = text_in(data), out = text_in(held);
  EXPECT_EQ(rest.size() + out.size(), text.size());
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    EXPECT_NEAR(static_cast<double>(std::ranges::count(out, letter)), 2500.0, 600.0) << letter;
  }
  for (const std::string& prefix : {data, held}) {
    const auto metadata = read_metadata(IndexedDataset(prefix));
    ASSERT_TRUE(metadata.has_value());
    EXPECT_EQ(metadata->bytes, std::ssize(text_in(prefix)));
    EXPECT_EQ(tokenizer_of_dataset(prefix)->kind(), "byte");
  }
}

}  // namespace
}  // namespace tessera
