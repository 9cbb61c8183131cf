#include "launch/data/datasets/span_corruption.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "tests/launch/data/vocabulary.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::expect_error;
using Ids = std::vector<int32_t>;

TEST(SpanCorruption, CountsMatchT5) {
  // random_spans_noise_mask(length, 0.15, 3.0) of T5: round(0.15 n) tokens, round(that / 3) spans.
  const struct {
    int64_t tokens, noise, spans;
  } cases[] = {{2, 1, 1}, {10, 2, 1}, {100, 15, 5}, {568, 85, 28}, {1000, 150, 50}};
  for (const auto& [tokens, noise, spans] : cases) {
    const NoiseCounts counts = noise_counts(tokens, {});
    EXPECT_EQ(counts.tokens, noise) << tokens;
    EXPECT_EQ(counts.spans, spans) << tokens;
  }
  // compute_input_and_target_lengths(512, 0.15, 3.0) of T5 gives 568 tokens and 114 targets.
  EXPECT_EQ(longest_corrupted_text(512, 114, {}), 568);
  EXPECT_EQ(longest_corrupted_text(512, 200, {}), 568);
  EXPECT_LT(longest_corrupted_text(512, 113, {}), 568);
  EXPECT_EQ(noise_counts(longest_corrupted_text(512, 512, {.sentinels = 7}), {}).spans, 7);
  expect_error([] { longest_corrupted_text(2, 8, {}); }, {"model.source_length is 2"});
}

TEST(SpanCorruption, EachSegmentationIsEquallyLikely) {
  // 6 kept tokens in 2 spans can be cut in 5 ways, 4 replaced ones in 3.
  const SpanCorruptionOptions options{.noise_density = 0.4, .mean_noise_span_length = 2.0};
  std::map<Ids, int64_t> counts;
  constexpr int64_t kTexts = 15000;
  for (int64_t text = 0; text < kTexts; ++text) {
    const Ids spans = noise_spans(10, options, 7, 0, text);
    EXPECT_EQ(std::accumulate(spans.begin(), spans.end(), 0), 10);
    EXPECT_EQ(spans[1] + spans[3], 4);
    ++counts[spans];
  }
  EXPECT_EQ(counts.size(), 15u);
  for (const auto& [spans, count] : counts) {
    EXPECT_TRUE(within_5_sigma(count, kTexts, 1.0 / 15.0));
  }
  EXPECT_EQ(noise_spans(100, {}, 7, 3, 5), noise_spans(100, {}, 7, 3, 5));
  EXPECT_NE(noise_spans(100, {}, 7, 3, 5), noise_spans(100, {}, 7, 4, 5));
  EXPECT_NE(noise_spans(100, {}, 7, 3, 5), noise_spans(100, {}, 8, 3, 5));
}

class SpanCorruptionData : public testing::Test {
 protected:
  static constexpr int32_t kSentinels = 100, kEndOfText = 3;

  /// Documents of these lengths, whose tokens count from 10, and their end token.
  std::shared_ptr<const IndexedDataset> dataset(const std::vector<int32_t>& lengths) {
    std::vector<std::vector<std::vector<int32_t>>> documents;
    for (const int32_t length : lengths) {
      Ids tokens(static_cast<size_t>(length));
      std::iota(tokens.begin(), tokens.end(), 10);
      tokens.push_back(kEndOfText);
      documents.push_back({tokens});
    }
    write_sentences(folder_ / "data", documents);
    return std::make_shared<const IndexedDataset>(folder_ / "data", kSentinels);
  }

  SpanCorruptionDataset corrupted(const std::vector<int32_t>& lengths, int64_t source_length,
                                  int64_t seq_length) {
    const auto tokens = dataset(lengths);
    return {tokens,     {0, tokens->num_tokens()}, source_length,
            seq_length, {0, kEndOfText},           true,
            kSentinels, {.sentinels = 20},         5};
  }

  test::TestFolder folder_;
};

/// The text that source and target were made from.
Ids restored(const Sample& sample) {
  Ids text;
  for (const int32_t token : sample.source_tokens) {
    if (token < 100) {
      text.push_back(token);
      continue;
    }
    auto span = std::ranges::find(sample.targets, token) + 1;
    for (; *span < 100 && *span != 3; ++span) text.push_back(*span);
  }
  return text;
}

TEST_F(SpanCorruptionData, SourceAndTargetRestoreTheText) {
  const SpanCorruptionDataset data = corrupted({60, 1, 25}, 40, 16);
  // 44 tokens fit: 7 of them in 2 spans make a source of 40.
  ASSERT_EQ(data.num_samples(), 4);
  std::set<Ids> sources;
  for (const int64_t epoch : {0, 1}) {
    Ids text;
    Sample sample;
    for (const int64_t i : {0, 1}) {
      data.fill(i, epoch, sample);
      const Ids part = restored(sample);
      EXPECT_EQ(part.back(), kEndOfText);
      text.insert(text.end(), part.begin(), part.end() - 1);
      EXPECT_LE(sample.source_tokens.size(), 40u);
      EXPECT_LE(sample.tokens.size(), 16u);
      EXPECT_EQ(sample.tokens[0], 0);
      EXPECT_EQ(Ids(sample.tokens.begin() + 1, sample.tokens.end()),
                Ids(sample.targets.begin(), sample.targets.end() - 1));
      EXPECT_EQ(sample.targets[0], kSentinels + 19);  // <extra_id_0>
      EXPECT_EQ(sample.document_lengths, Ids{static_cast<int32_t>(sample.tokens.size())});
      EXPECT_EQ(sample.source_lengths, Ids{static_cast<int32_t>(sample.source_tokens.size())});
      sources.insert(sample.source_tokens);
    }
    Ids expected(60);
    std::iota(expected.begin(), expected.end(), 10);
    EXPECT_EQ(text, expected);
    data.fill(2, epoch, sample);
    EXPECT_EQ(sample.source_tokens, (Ids{10, kEndOfText}));
    EXPECT_EQ(sample.targets, Ids{kEndOfText});
  }
  // Spans change with the epoch, but a single one is always at the end, as in T5.
  EXPECT_EQ(sources.size(), 3u);
}

}  // namespace
}  // namespace tessera
