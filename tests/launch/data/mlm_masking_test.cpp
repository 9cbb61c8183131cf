#include "launch/data/datasets/mlm_masking.h"

#include <cmath>
#include <map>

#include "core/ops/cross_entropy.h"
#include "core/random.h"
#include "tests/launch/data/test_files.h"
#include "tests/launch/data/vocabulary.h"

namespace tessera {
namespace {

constexpr int64_t kVocabSize = 1000;
constexpr uint64_t kSeed = 7;

/// [CLS] words [SEP] words [SEP], with an unknown word and padding.
Sample synthetic_sample(int64_t length, uint32_t id) {
  const RandomKey key{99, RandomPurpose::sampling, id, 0};
  Sample sample;
  for (int64_t i = 0; i < length; ++i) {
    const uint32_t bits = random_bits(key, static_cast<uint64_t>(i));
    sample.tokens.push_back(kFirstWord + static_cast<int32_t>(bits % (kVocabSize - kFirstWord)));
  }
  const auto place = [&](int64_t i) -> int32_t& { return sample.tokens[static_cast<size_t>(i)]; };
  place(0) = kStart;
  place(length / 4) = kUnknown;
  place(length / 2) = place(length - 2) = kEnd;
  place(length - 1) = 0;
  sample.targets.resize(sample.tokens.size());
  sample.document_lengths = {static_cast<int32_t>(length)};
  return sample;
}

Sample masked(const MlmMasking& masking, const Sample& sample, int64_t id, int64_t epoch) {
  Sample result = sample;
  masking.apply(id, epoch, 0, static_cast<int64_t>(sample.tokens.size()), result);
  return result;
}

bool is_chosen(const Sample& sample, size_t i) { return sample.targets[i] != kIgnoreTarget; }

/// Totals over many samples of 64 tokens.
struct Counts {
  int64_t ordinary = 0, chosen = 0, masked = 0, random = 0, kept = 0;
  std::vector<int64_t> chosen_at = std::vector<int64_t>(64, 0);
  std::vector<int64_t> replacements = std::vector<int64_t>(kVocabSize, 0);
};

constexpr int64_t kSamples = 4000;

Counts count(const MlmMasking& masking) {
  Counts counts;
  for (int64_t id = 0; id < kSamples; ++id) {
    const Sample sample = synthetic_sample(64, static_cast<uint32_t>(id));
    const Sample result = masked(masking, sample, id, 0);
    for (size_t i = 0; i < 64; ++i) {
      const int32_t before = sample.tokens[i], after = result.tokens[i];
      if (masking.is_special(before)) {
        EXPECT_EQ(result.targets[i], kIgnoreTarget);
        EXPECT_EQ(after, before);
        continue;
      }
      ++counts.ordinary;
      if (!is_chosen(result, i)) {
        EXPECT_EQ(after, before);
        continue;
      }
      EXPECT_EQ(result.targets[i], before);
      ++counts.chosen;
      ++counts.chosen_at[i];
      if (after == kMask) {
        ++counts.masked;
      } else if (after == before) {
        ++counts.kept;  // or a random token that happens to be equal
      } else {
        EXPECT_FALSE(masking.is_special(after));
        ++counts.random;
        ++counts.replacements[static_cast<size_t>(after)];
      }
    }
  }
  return counts;
}

TEST(MlmMasking, TokenRatesAreBinomial) {
  const Counts counts = count({test_vocabulary(kVocabSize), {}, kSeed});
  EXPECT_EQ(counts.ordinary, kSamples * 59);
  EXPECT_TRUE(within_5_sigma(counts.chosen, counts.ordinary, 0.15));
  EXPECT_TRUE(within_5_sigma(counts.masked, counts.chosen, 0.8));
  const double same = 0.1 / 995.0;  // probability that the random token equals the original
  EXPECT_TRUE(within_5_sigma(counts.random, counts.chosen, 0.1 - same));
  EXPECT_TRUE(within_5_sigma(counts.kept, counts.chosen, 0.1 + same));
  for (size_t i = 0; i < 64; ++i) {
    if (counts.chosen_at[i] == 0) continue;  // a special token
    EXPECT_TRUE(within_5_sigma(counts.chosen_at[i], kSamples, 0.15)) << "place " << i;
  }
  int64_t different = 0;
  for (const int64_t uses : counts.replacements) different += uses > 0 ? 1 : 0;
  EXPECT_GT(different, 900);  // about 3500 draws miss e^-3.5 = 3% of 995
  for (int32_t special = 0; special < kFirstWord; ++special) {
    EXPECT_EQ(counts.replacements[static_cast<size_t>(special)], 0);
  }
}

TEST(MlmMasking, FollowsConfiguredFractions) {
  const VocabularyTraits traits = test_vocabulary(kVocabSize);
  const Counts all =
      count({traits, {.probability = 1.0, .mask_fraction = 1.0, .random_fraction = 0.0}, kSeed});
  EXPECT_EQ(all.masked, all.ordinary);
  const Counts none =
      count({traits, {.probability = 0.4, .mask_fraction = 0.0, .random_fraction = 0.0}, kSeed});
  EXPECT_EQ(none.kept, none.chosen);
  EXPECT_TRUE(within_5_sigma(none.chosen, none.ordinary, 0.4));
  const Counts random =
      count({traits, {.probability = 0.4, .mask_fraction = 0.25, .random_fraction = 0.75}, kSeed});
  EXPECT_TRUE(within_5_sigma(random.masked, random.chosen, 0.25));
  EXPECT_TRUE(within_5_sigma(random.random, random.chosen, 0.75 * 994.0 / 995.0));
}

// What the model sees of a chosen token does not depend on the token.
TEST(MlmMasking, HiddenFromAttentionIsAlwaysMasked) {
  for (const MaskUnit unit : {MaskUnit::token, MaskUnit::span}) {
    const MlmMasking masking(test_vocabulary(kVocabSize),
                             {.probability = 0.4, .unit = unit, .hide = MaskHide::attention},
                             kSeed);
    const Counts counts = count(masking);
    EXPECT_EQ(counts.masked, counts.chosen);
    if (unit == MaskUnit::span) continue;  // which words are chosen depends on where they end
    Sample sample = synthetic_sample(64, 3);
    const Sample before = masked(masking, sample, 3, 0);
    for (size_t i = 0; i < 64; ++i) {
      if (is_chosen(before, i)) sample.tokens[i] = sample.tokens[i] == 500 ? 501 : 500;
    }
    const Sample after = masked(masking, sample, 3, 0);
    EXPECT_EQ(after.tokens, before.tokens);
    EXPECT_NE(after.targets, before.targets);
  }
}

/// The starts of words: tokens that do not continue a word, and those after a special token.
std::vector<size_t> word_begins(const MlmMasking& masking, const Sample& sample) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < sample.tokens.size(); ++i) {
    const int32_t token = sample.tokens[i];
    if (masking.is_special(token)) continue;
    const bool continues = masking.traits().continues_word[static_cast<size_t>(token)];
    if (!continues || masking.is_special(sample.tokens[i - 1])) begins.push_back(i);
  }
  return begins;
}

size_t word_end(const MlmMasking& masking, const Sample& sample, size_t begin) {
  size_t end = begin + 1;
  while (!masking.is_special(sample.tokens[end]) &&
         masking.traits().continues_word[static_cast<size_t>(sample.tokens[end])]) {
    ++end;
  }
  return end;
}

TEST(MlmMasking, MasksWholeWords) {
  const MlmMasking masking(test_vocabulary(kVocabSize), {.unit = MaskUnit::whole_word}, kSeed);
  int64_t words = 0, chosen = 0, pieces = 0, pieces_masked = 0;
  for (int64_t id = 0; id < kSamples; ++id) {
    const Sample sample = synthetic_sample(64, static_cast<uint32_t>(id));
    const Sample result = masked(masking, sample, id, 0);
    for (const size_t begin : word_begins(masking, sample)) {
      ++words;
      chosen += is_chosen(result, begin) ? 1 : 0;
      for (size_t i = begin; i < word_end(masking, sample, begin); ++i) {
        EXPECT_EQ(is_chosen(result, i), is_chosen(result, begin));
        if (!is_chosen(result, i)) continue;
        ++pieces;
        pieces_masked += result.tokens[i] == kMask ? 1 : 0;
      }
    }
  }
  EXPECT_TRUE(within_5_sigma(chosen, words, 0.15));
  EXPECT_TRUE(within_5_sigma(pieces_masked, pieces, 0.8));
}

TEST(MlmMasking, SpansCoverWholeWordsUniformly) {
  const MlmMasking masking(test_vocabulary(kVocabSize), {.unit = MaskUnit::span}, kSeed);
  constexpr size_t kMost = 12;
  std::vector<int64_t> chosen(kMost, 0), seen(kMost, 0);  // by the word's number
  int64_t longest = 0;
  for (int64_t id = 0; id < 5 * kSamples; ++id) {
    const Sample sample = synthetic_sample(64, static_cast<uint32_t>(id));
    const Sample result = masked(masking, sample, id, 0);
    size_t number = 0;
    int64_t run = 0;
    for (const size_t begin : word_begins(masking, sample)) {
      if (masking.is_special(sample.tokens[begin - 1])) number = static_cast<size_t>(run = 0);
      for (size_t i = begin; i < word_end(masking, sample, begin); ++i) {
        EXPECT_EQ(is_chosen(result, i), is_chosen(result, begin));
      }
      run = is_chosen(result, begin) ? run + 1 : 0;
      longest = std::max(longest, run);
      if (number == kMost) continue;
      ++seen[number];
      chosen[number++] += is_chosen(result, begin) ? 1 : 0;
    }
  }
  for (size_t number = 0; number < kMost; ++number) {
    // Words at one place of different texts are independent, so the bound is binomial.
    EXPECT_TRUE(within_5_sigma(chosen[number], seen[number], 0.15)) << "word " << number;
  }
  EXPECT_GT(longest, 5);
}

TEST(MlmMasking, SpanLengthsMatchSpanBert) {
  // One long text of one-token words, with so few spans that they are rarely adjacent. Spans are
  // recognized because they are fully masked.
  VocabularyTraits traits = test_vocabulary(kVocabSize);
  traits.continues_word.clear();
  const MaskingOptions options{.probability = 0.002,
                               .mask_fraction = 1.0,
                               .random_fraction = 0.0,
                               .unit = MaskUnit::span,
                               .max_span = 10};
  const MlmMasking masking(traits, options, kSeed);
  Sample sample;
  sample.tokens.assign(8'000'000, kFirstWord);
  sample.targets.resize(sample.tokens.size());
  masking.apply(3, 0, 0, static_cast<int64_t>(sample.tokens.size()), sample);
  std::map<int64_t, int64_t> spans;
  int64_t run = 0, all = 0, words = 0;
  for (const int32_t token : sample.tokens) {
    if (token == kMask) {
      ++run;
    } else if (run > 0) {
      ++spans[run];
      ++all;
      words += run;
      run = 0;
    }
  }
  const double normal = 1.0 - std::pow(0.8, 10);
  for (int64_t n = 1; n <= 10; ++n) {
    const double p = 0.2 * std::pow(0.8, static_cast<double>(n - 1)) / normal;
    // One span in 2000 directly follows another and is counted with it.
    EXPECT_NEAR(static_cast<double>(spans[n]), p * static_cast<double>(all),
                5.0 * std::sqrt(p * static_cast<double>(all)) + 0.001 * static_cast<double>(all));
  }
  // The paper's mean of 3.8 words.
  EXPECT_NEAR(static_cast<double>(words) / static_cast<double>(all), 3.8, 0.15);
}

TEST(MlmMasking, ReplacesSpansAsUnits) {
  const MaskingOptions options{.unit = MaskUnit::span, .max_span = 3};
  const MlmMasking masking(test_vocabulary(kVocabSize), options, kSeed);
  int64_t spans = 0, mixed = 0, words = 0;
  for (int64_t id = 0; id < kSamples; ++id) {
    Sample sample = synthetic_sample(64, static_cast<uint32_t>(id));
    const Sample result = masked(masking, sample, id, 0);
    for (const size_t begin : word_begins(masking, sample)) {
      if (!is_chosen(result, begin)) continue;
      ++words;
      if (begin == 0 || !is_chosen(result, begin - 1)) {
        ++spans;
      } else {
        mixed += (result.tokens[begin] == kMask) != (result.tokens[begin - 1] == kMask) ? 1 : 0;
      }
    }
  }
  // If words were replaced independently, 2 × 0.8 × 0.2 of neighbors would differ. Adjacent spans
  // still do.
  EXPECT_LT(static_cast<double>(mixed), 0.2 * static_cast<double>(words - spans));
}

TEST(MlmMasking, DependsOnlyOnSeedEpochPieceAndPlace) {
  for (const MaskUnit unit : {MaskUnit::token, MaskUnit::whole_word, MaskUnit::span}) {
    const VocabularyTraits traits = test_vocabulary(kVocabSize);
    const MlmMasking masking(traits, {.unit = unit}, kSeed);
    const Sample sample = synthetic_sample(256, 1);
    const Sample first = masked(masking, sample, 5, 2);
    EXPECT_EQ(masked(masking, sample, 5, 2).tokens, first.tokens);
    EXPECT_NE(masked(masking, sample, 5, 3).targets, first.targets);
    EXPECT_NE(masked(masking, sample, 6, 2).targets, first.targets);
    EXPECT_NE(masked({traits, {.unit = unit}, kSeed + 1}, sample, 5, 2).targets, first.targets);
    // The same piece, placed after another.
    Sample both = synthetic_sample(50, 2);
    both.tokens.insert(both.tokens.end(), sample.tokens.begin(), sample.tokens.end());
    both.targets.assign(both.tokens.size(), 77);
    const std::vector<int32_t> front(both.tokens.begin(), both.tokens.begin() + 50);
    masking.apply(5, 2, 50, 306, both);
    EXPECT_TRUE(std::equal(first.tokens.begin(), first.tokens.end(), both.tokens.begin() + 50));
    EXPECT_TRUE(std::equal(first.targets.begin(), first.targets.end(), both.targets.begin() + 50));
    EXPECT_TRUE(std::equal(front.begin(), front.end(), both.tokens.begin()));
    EXPECT_EQ(both.targets[49], 77);
  }
}

TEST(MlmMasking, LeavesSpecialTokensUnchanged) {
  const MlmMasking masking(test_vocabulary(kVocabSize), {.probability = 1.0}, kSeed);
  Sample sample;
  sample.tokens = {kStart, kEnd, kMask, 0, kUnknown};
  sample.targets.resize(5);
  const Sample result = masked(masking, sample, 0, 0);
  EXPECT_EQ(result.tokens, sample.tokens);
  EXPECT_EQ(result.targets, std::vector<int32_t>(5, kIgnoreTarget));
  EXPECT_TRUE(masked(masking, {}, 0, 0).tokens.empty());
}

TEST(MlmMasking, RejectsInvalidArguments) {
  const auto message = [](const VocabularyTraits& traits, const MaskingOptions& options) {
    return error_of([&] { MlmMasking(traits, options, kSeed); });
  };
  const VocabularyTraits good = test_vocabulary(kVocabSize);
  VocabularyTraits bytes;
  bytes.vocab_size = 257;
  EXPECT_TRUE(names_all(message(bytes, {}), {"[MASK]", "wordpiece"}));
  VocabularyTraits words = good;
  words.continues_word.assign(kVocabSize, false);
  EXPECT_TRUE(names_all(message(words, {.unit = MaskUnit::whole_word}),
                        {"whole-word masking", "continue"}));
  words.continues_word.resize(3);
  EXPECT_TRUE(names_all(message(words, {}), {"3 tokens", "1000"}));
  VocabularyTraits outside = good;
  outside.special.mask = 1000;
  EXPECT_TRUE(names_all(message(outside, {}), {"[MASK]", "1000", "vocabulary"}));
  EXPECT_TRUE(names_all(message(test_vocabulary(5), {}), {"only special"}));
  for (const double p : {0.0, -0.1, 1.1, std::nan("")}) {
    EXPECT_TRUE(names_all(message(good, {.probability = p}), {"probability", "more than 0"}));
  }
  EXPECT_TRUE(names_all(message(good, {.mask_fraction = 0.95}), {"0.95", "0.1", "at most 1"}));
  EXPECT_TRUE(names_all(message(good, {.random_fraction = -0.1}), {"-0.1"}));
  EXPECT_TRUE(names_all(message(good, {.max_span = 0}), {"0 words", "1 to"}));
  const MlmMasking masking(good, {}, kSeed);
  Sample sample = synthetic_sample(10, 0);
  EXPECT_THROW(masking.apply(0, 0, 0, 11, sample), Error);
  EXPECT_THROW(masking.apply(-1, 0, 0, 10, sample), Error);
  EXPECT_THROW(masking.apply(0, -1, 0, 10, sample), Error);
  sample.tokens[4] = 1000;
  EXPECT_TRUE(
      names_all(error_of([&] { masking.apply(8, 0, 0, 10, sample); }), {"token 1000", "piece 8"}));
}

}  // namespace
}  // namespace tessera
