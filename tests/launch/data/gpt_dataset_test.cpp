#include "launch/data/datasets/gpt_dataset.h"

#include <cmath>
#include <numeric>

#include "tests/launch/data/test_files.h"

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

TEST(GptDataset, TargetsAreNextTokens) {
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

TEST(GptDataset, NeedsEnoughTokensForOneSample) {
  const TestFolder folder;
  const auto tokens = counting_dataset(folder, 40);
  EXPECT_EQ(GptDataset(tokens, {0, 40}, 39).num_samples(), 1);
  EXPECT_TRUE(names_all(error_of([&] {
                          GptDataset dataset(tokens, {0, 40}, 40);
                        }),
                        {folder / "set", "40 tokens", "seq_length 40", "41"}));
  EXPECT_THROW(GptDataset(tokens, {5, 5}, 1), Error);
  EXPECT_THROW(GptDataset(tokens, {0, 41}, 4), Error);
  EXPECT_THROW(GptDataset(tokens, {-1, 40}, 4), Error);
  EXPECT_THROW(GptDataset(tokens, {0, 40}, 0), Error);
  EXPECT_THROW(GptDataset(tokens, {0, 40}, std::numeric_limits<int64_t>::max()), Error);
}

TEST(GptDataset, ValidatesLastTarget) {
  const TestFolder folder;
  const GptDataset dataset(counting_dataset(folder, 40, 8), {0, 40}, 8);
  std::vector<int32_t> inputs(8), targets(8);
  EXPECT_TRUE(names_all(error_of([&] { dataset.fill(0, inputs, targets); }),
                        {"set.bin", "position 8", "is 8", "8 tokens"}));
}

/// The document of each token in the concatenation, found by a linear scan.
std::vector<int64_t> documents_of_tokens(const std::vector<std::vector<int32_t>>& documents) {
  std::vector<int64_t> result;
  for (size_t d = 0; d < documents.size(); ++d) {
    result.insert(result.end(), documents[d].size(), static_cast<int64_t>(d));
  }
  return result;
}

TEST(GptDataset, FindsDocumentsInIndex) {
  const TestFolder folder;
  // Documents that are empty, have one token, are longer than a sample, or end where a sample does.
  const std::vector<std::vector<int32_t>> documents = {
      {},           {1, 2, 3}, {4},      {}, {}, {5, 6, 7, 8, 9, 10, 11, 12, 13},
      {14, 15, 16}, {17},      {18, 19}, {}};
  write_dataset(folder / "set", documents);
  const auto dataset = std::make_shared<IndexedDataset>(folder / "set");
  const std::vector<int64_t> document_of = documents_of_tokens(documents);
  for (const Range range : {Range{0, 19}, Range{2, 19}, Range{5, 14}}) {
    for (const int64_t length : {1, 2, 3, 4, 8}) {
      for (const bool separate : {false, true}) {
        for (const bool across : {false, true}) {
          const GptDataset gpt(dataset, range, length, {separate, across});
          for (int64_t sample = 0; sample < gpt.num_samples(); ++sample) {
            Sample expected;
            for (int64_t i = 0; i < length; ++i) {
              const auto at = static_cast<size_t>(range.begin + sample * length + i);
              const bool ends = document_of[at] != document_of[at + 1];
              expected.tokens.push_back(static_cast<int32_t>(at) + 1);
              expected.targets.push_back(ends && !across ? -1 : static_cast<int32_t>(at) + 2);
              const bool starts = i == 0 || (separate && document_of[at - 1] != document_of[at]);
              if (starts) expected.document_lengths.push_back(0);
              ++expected.document_lengths.back();
            }
            Sample found;
            found.labels = found.token_types = {1, 2, 3};
            gpt.fill(sample, /*epoch=*/3, found);
            EXPECT_EQ(found.tokens, expected.tokens);
            EXPECT_EQ(found.targets, expected.targets);
            EXPECT_EQ(found.document_lengths, expected.document_lengths);
            EXPECT_TRUE(found.token_types.empty());
            EXPECT_TRUE(found.labels.empty());
          }
          Sample out;
          EXPECT_THROW(gpt.fill(gpt.num_samples(), 0, out), Error);
        }
      }
    }
  }
}

TEST(GptDataset, IgnoresEndOfDocumentTokens) {
  const TestFolder folder;
  constexpr int32_t kEnd = 256;
  write_dataset(folder / "plain", {{1, 2, 3, kEnd}, {4, 5, 6, 7, 8, kEnd}});
  write_dataset(folder / "tricky", {{1, kEnd, kEnd, 2}, {kEnd, 5, 6, kEnd, 8, kEnd}});
  for (const bool across : {false, true}) {
    const auto lengths_and_losses = [&](const char* name) {
      const auto dataset = std::make_shared<IndexedDataset>(folder / name);
      Sample sample;
      GptDataset(dataset, {0, 10}, 9, {true, across}).fill(0, 0, sample);
      std::vector<int32_t> result = sample.document_lengths;
      for (const int32_t target : sample.targets) result.push_back(target == -1 ? 0 : 1);
      return result;
    };
    EXPECT_EQ(lengths_and_losses("plain"), lengths_and_losses("tricky"));
  }
}

}  // namespace
}  // namespace tessera
