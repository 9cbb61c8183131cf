#include "launch/data/datasets/gpt_packed_dataset.h"

#include <algorithm>
#include <numeric>

#include "tests/launch/data/test_files.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::expect_error;

/// Documents of these lengths, whose tokens count up over all documents: 0, 1, 2, ...
std::shared_ptr<const IndexedDataset> counting_documents(const TestFolder& folder,
                                                         const std::vector<size_t>& lengths,
                                                         int64_t vocab_size = 60000) {
  std::vector<std::vector<int32_t>> documents;
  int32_t next = 0;
  for (const size_t length : lengths) {
    std::vector<int32_t>& document = documents.emplace_back(length);
    std::iota(document.begin(), document.end(), next);
    next += static_cast<int32_t>(length);
  }
  write_dataset(folder / "set", documents);
  return std::make_shared<const IndexedDataset>(folder / "set", vocab_size);
}

/// All samples in order.
std::vector<Sample> samples_of(const Dataset& dataset) {
  std::vector<Sample> samples(static_cast<size_t>(dataset.num_samples()));
  for (int64_t i = 0; i < dataset.num_samples(); ++i) {
    samples[static_cast<size_t>(i)].labels = {1};  // must be overwritten
    dataset.fill(i, /*epoch=*/i, samples[static_cast<size_t>(i)]);
  }
  return samples;
}

TEST(GptPackedDataset, EveryTokenButFirstOfDocumentIsTargetOnce) {
  const TestFolder folder;
  const std::vector<size_t> lengths = {3, 0, 1, 9, 17, 2, 2, 1, 8, 33, 4, 0};
  const auto tokens = counting_documents(folder, lengths);
  std::vector<int32_t> expected;
  for (size_t d = 0, begin = 0; d < lengths.size(); begin += lengths[d++]) {
    for (size_t i = 1; i < lengths[d]; ++i) expected.push_back(static_cast<int32_t>(begin + i));
  }
  for (const int64_t length : {1, 2, 7, 8, 16, 40}) {
    const GptPackedDataset dataset(tokens, {0, tokens->num_tokens()}, length);
    EXPECT_EQ(dataset.seq_length(), length);
    std::vector<int32_t> targets;
    for (const Sample& sample : samples_of(dataset)) {
      EXPECT_LE(std::ssize(sample.tokens), length);
      EXPECT_TRUE(sample.labels.empty());
      const auto& parts = sample.document_lengths;
      EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), size_t{0}), sample.tokens.size());
      for (size_t i = 0; i < sample.tokens.size(); ++i) {
        EXPECT_EQ(sample.targets[i], sample.tokens[i] + 1);
        targets.push_back(sample.targets[i]);
      }
    }
    std::ranges::sort(targets);
    EXPECT_EQ(targets, expected) << "seq_length " << length;
  }
}

TEST(GptPackedDataset, KeepsDocumentsTogetherWhenTheyFit) {
  const TestFolder folder;
  // Inputs exclude the last tokens: 8, 3, 5, 8 and 4, and 2.
  const auto tokens = counting_documents(folder, {9, 4, 6, 13, 3});
  const GptPackedDataset dataset(tokens, {0, 35}, 8);
  std::vector<std::vector<int32_t>> rows, first_tokens;
  for (const Sample& sample : samples_of(dataset)) {
    rows.push_back(sample.document_lengths);
    first_tokens.push_back({sample.tokens.front()});
  }
  EXPECT_EQ(rows, (std::vector<std::vector<int32_t>>{{8}, {3, 5}, {8}, {4, 2}}));
  EXPECT_EQ(first_tokens, (std::vector<std::vector<int32_t>>{{0}, {9}, {19}, {27}}));
}

TEST(GptPackedDataset, StaysWithinRange) {
  const TestFolder folder;
  const auto tokens = counting_documents(folder, {10, 10, 10});
  for (const Range range : {Range{3, 26}, Range{0, 10}, Range{15, 17}, Range{9, 22}}) {
    for (const Sample& sample : samples_of(GptPackedDataset(tokens, range, 4))) {
      EXPECT_GE(sample.tokens.front(), range.begin);
      EXPECT_LT(sample.targets.back(), range.end);
    }
  }
}

TEST(GptPackedDataset, RejectsRangesWithoutSamples) {
  const TestFolder folder;
  const auto tokens = counting_documents(folder, {1, 1, 1, 5});
  expect_error(
      [&] {
        GptPackedDataset(tokens, {0, 3}, 4);
      },
      {"set: no document in tokens [0, 3) has more than 1 token: use longer documents"});
  expect_error(
      [&] {
        GptPackedDataset(tokens, {3, 3}, 4);
      },
      {"the range of tokens [3, 3) is empty"});
  expect_error([&] { GptPackedDataset(tokens, {0, 9}, 4); }, {"not within the dataset"});
  expect_error([&] { GptPackedDataset(tokens, {0, 8}, 0); }, {"seq_length is 0"});
  const GptPackedDataset dataset(tokens, {0, 8}, 4);
  Sample out;
  expect_error([&] { dataset.fill(1, 0, out); }, {"there is no sample 1: there are 1"});
}

TEST(GptPackedDataset, ValidatesLastTarget) {
  const TestFolder folder;
  const GptPackedDataset dataset(counting_documents(folder, {9}, 8), {0, 9}, 8);
  Sample out;
  expect_error([&] { dataset.fill(0, 0, out); }, {"set.bin", "position 8", "is 8", "8 tokens"});
}

}  // namespace
}  // namespace tessera
