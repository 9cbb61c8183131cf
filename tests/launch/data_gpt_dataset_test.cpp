#include <cmath>
#include <numeric>

#include "data_test_files.h"
#include "launch/data/gpt_dataset.h"

namespace tessera {
namespace {

/// A dataset with the tokens 0, 1, 2, ... in documents of 7.
std::shared_ptr<const IndexedDataset> counting_dataset(const TestFolder& folder, int32_t tokens,
                                                       int64_t vocab_size = 60000) {
  std::vector<std::vector<int32_t>> documents;
  for (int32_t begin = 0; begin < tokens; begin += 7) {
    documents.emplace_back(static_cast<size_t>(std::min(7, tokens - begin)));
    std::iota(documents.back().begin(), documents.back().end(), begin);
  }
  write_dataset(folder / "set", documents);
  return std::make_shared<IndexedDataset>(folder / "set", vocab_size);
}

TEST(GptDataset, TargetsAreTheTokensThatFollow) {
  const TestFolder folder;
  const auto tokens = counting_dataset(folder, 40);
  for (const int64_t length : {1, 2, 5, 8, 29}) {
    const GptDataset dataset(tokens, {10, 40}, length);
    EXPECT_EQ(dataset.num_samples(), 29 / length);
    const size_t size = static_cast<size_t>(length);
    std::vector<int32_t> inputs(size), targets(size);
    for (int64_t sample = 0; sample < dataset.num_samples(); ++sample) {
      dataset.fill(sample, inputs, targets);
      for (size_t i = 0; i < size; ++i) {
        EXPECT_EQ(inputs[i], 10 + sample * length + static_cast<int64_t>(i));
        EXPECT_EQ(targets[i], inputs[i] + 1);
      }
    }
    EXPECT_THROW(dataset.fill(dataset.num_samples(), inputs, targets), Error);
    EXPECT_THROW(dataset.fill(-1, inputs, targets), Error);
    EXPECT_THROW(dataset.fill(0, std::span(inputs).first(size - 1), targets), Error);
  }
}

TEST(GptDataset, NeedsOneSample) {
  const TestFolder folder;
  const auto tokens = counting_dataset(folder, 40);
  EXPECT_EQ(GptDataset(tokens, {0, 40}, 39).num_samples(), 1);
  EXPECT_TRUE(names_all(message_of([&] {
                          GptDataset dataset(tokens, {0, 40}, 40);
                        }),
                        {folder / "set", "40 tokens", "seq_length 40", "41"}));
  EXPECT_THROW(GptDataset(tokens, {5, 5}, 1), Error);
  EXPECT_THROW(GptDataset(tokens, {0, 41}, 4), Error);
  EXPECT_THROW(GptDataset(tokens, {-1, 40}, 4), Error);
  EXPECT_THROW(GptDataset(tokens, {0, 40}, 0), Error);
  EXPECT_THROW(GptDataset(tokens, {0, 40}, std::numeric_limits<int64_t>::max()), Error);
}

TEST(GptDataset, ChecksTheLastTargetToo) {
  const TestFolder folder;
  const GptDataset dataset(counting_dataset(folder, 40, 8), {0, 40}, 8);
  std::vector<int32_t> inputs(8), targets(8);
  EXPECT_TRUE(names_all(message_of([&] { dataset.fill(0, inputs, targets); }),
                        {"set.bin", "position 8", "is 8", "8 tokens"}));
}

TEST(SplitTokens, HoldsOutTheEnd) {
  const TokenSplit split = split_tokens(1000, 0.25);
  EXPECT_EQ(split.train, (Range{0, 750}));
  EXPECT_EQ(split.eval, (Range{750, 1000}));
  EXPECT_EQ(split_tokens(7, 0.5).train, (Range{0, 4}));
  EXPECT_TRUE(split_tokens(1000, 0.0).eval.empty());
  EXPECT_EQ(split_tokens(0, 0.5).train.size(), 0);
  for (const double fraction : {-0.1, 1.0, 2.0, std::nan("")}) {
    EXPECT_THROW(split_tokens(1000, fraction), Error);
  }
}

}  // namespace
}  // namespace tessera
