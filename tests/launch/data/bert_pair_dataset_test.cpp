#include "launch/data/datasets/bert_pair_dataset.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>

#include "core/random.h"
#include "tests/launch/data/test_files.h"
#include "tests/launch/data/vocabulary.h"

namespace tessera {
namespace {

constexpr int64_t kVocabSize = 30000;
constexpr int64_t kSeqLength = 32;
constexpr uint64_t kSeed = 11;
using Tokens = std::vector<int32_t>;
using Documents = std::vector<std::vector<Tokens>>;

/// Documents of 0 to 14 sentences of 0 to 19 tokens. All tokens differ, so that each identifies its
/// position.
Documents synthetic_documents(size_t count) {
  Documents documents(count);
  int32_t next = kFirstWord;
  uint64_t element = 0;
  const auto random = [&](uint32_t below) {
    return random_bits({3, RandomPurpose::sampling, 0, 0}, element++) % below;
  };
  for (auto& document : documents) {
    document.resize(random(15));
    for (Tokens& sentence : document) {
      sentence.resize(random(20));
      std::iota(sentence.begin(), sentence.end(), next);
      next += static_cast<int32_t>(sentence.size());
    }
  }
  return documents;
}

/// A decomposed sample.
struct Pair {
  Tokens a, b;
  int32_t label = -1;
};

Pair split_pair(const Sample& sample) {
  const Tokens tokens = unmasked(sample);
  const auto n = static_cast<std::ptrdiff_t>(tokens.size());
  EXPECT_EQ(sample.document_lengths, Tokens{static_cast<int32_t>(n)});
  EXPECT_EQ(tokens.front(), kStart);
  EXPECT_EQ(tokens.back(), kEnd);
  EXPECT_EQ(std::ranges::count(tokens, kEnd), 2);
  const auto middle = std::ranges::find(tokens, kEnd) - tokens.begin();
  Tokens types(static_cast<size_t>(middle) + 1, 0);
  types.resize(tokens.size(), 1);
  EXPECT_EQ(sample.token_types, types);
  EXPECT_EQ(sample.labels.size(), 1u);
  return {{tokens.begin() + 1, tokens.begin() + middle},
          {tokens.begin() + middle + 1, tokens.end() - 1},
          sample.labels[0]};
}

bool counts_up(const Tokens& tokens) {
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (tokens[i] != tokens[i - 1] + 1) return false;
  }
  return !tokens.empty();
}

class BertPairDatasetTest : public ::testing::Test {
 protected:
  void SetUp() override { write(synthetic_documents(150)); }

  void write(const Documents& documents) {
    write_sentences(folder_ / "set", documents);
    dataset_ = std::make_shared<const IndexedDataset>(folder_ / "set", kVocabSize);
    document_of_.assign(static_cast<size_t>(kFirstWord), -1);
    last_.assign(static_cast<size_t>(kFirstWord), false);
    for (size_t d = 0; d < documents.size(); ++d) {
      for (const Tokens& sentence : documents[d]) {
        document_of_.insert(document_of_.end(), sentence.size(), static_cast<int64_t>(d));
        last_.insert(last_.end(), sentence.size(), false);
        last_.back() = true;
      }
    }
  }

  BertPairDataset pairs(double short_probability = 0.1, int64_t seq_length = kSeqLength) const {
    return {dataset_,
            {0, dataset_->num_tokens()},
            seq_length,
            test_vocabulary(kVocabSize),
            {.sentence_pairs = true, .short_sequence_probability = short_probability},
            kSeed};
  }

  int64_t document_of(int32_t token) const { return document_of_[static_cast<size_t>(token)]; }

  TestFolder folder_;
  std::shared_ptr<const IndexedDataset> dataset_;
  std::vector<int64_t> document_of_;  ///< of each token
  std::vector<bool> last_;            ///< whether a token ends a sentence
};

TEST_F(BertPairDatasetTest, BFollowsAOrComesFromAnotherDocument) {
  const BertPairDataset dataset = pairs();
  ASSERT_GT(dataset.num_samples(), 200);
  int64_t random = 0, all = 0;
  std::set<std::pair<int64_t, int64_t>> combinations;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      Sample sample;
      dataset.fill(i, epoch, sample);
      ASSERT_LE(sample.tokens.size(), static_cast<size_t>(kSeqLength));
      const bool shortened = sample.tokens.size() == kSeqLength;
      const auto [a, b, label] = split_pair(sample);
      ASSERT_TRUE(counts_up(a) && counts_up(b));
      const int64_t a_from = document_of(a.front()), b_from = document_of(b.front());
      EXPECT_EQ(document_of(a.back()), a_from);
      EXPECT_EQ(document_of(b.back()), b_from);
      ++all;
      random += label;
      if (label == 1) {
        EXPECT_NE(b_from, a_from);
        combinations.emplace(a_from, b_from);
      } else {
        ASSERT_EQ(label, 0);
        EXPECT_EQ(b_from, a_from);
        EXPECT_GT(b.front(), a.back());
      }
      if (shortened) continue;
      // Whole, consecutive sentences.
      EXPECT_TRUE(last_[static_cast<size_t>(a.back())] && last_[static_cast<size_t>(b.back())]);
      EXPECT_TRUE(last_[static_cast<size_t>(a.front()) - 1] || a.front() == kFirstWord);
      EXPECT_TRUE(last_[static_cast<size_t>(b.front()) - 1] || b.front() == kFirstWord);
      if (label == 0) {
        EXPECT_EQ(b.front(), a.back() + 1);
      }
    }
  }
  EXPECT_TRUE(within_5_sigma(random, all, 0.5));
  EXPECT_GT(combinations.size(), 1000u);
}

TEST_F(BertPairDatasetTest, CoversAllTextAndVariesLabelsByEpoch) {
  const BertPairDataset dataset = pairs();
  std::set<int32_t> seen;
  std::vector<int> random(static_cast<size_t>(dataset.num_samples()), 0);
  constexpr int kEpochs = 64;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      Sample sample;
      dataset.fill(i, epoch, sample);
      const auto [a, b, label] = split_pair(sample);
      seen.insert(a.begin(), a.end());
      seen.insert(b.begin(), b.end());
      random[static_cast<size_t>(i)] += label;
    }
  }
  // Documents with one sentence also appear, as random text; but the ends of long texts are usually
  // truncated.
  EXPECT_GE(static_cast<int64_t>(seen.size()), dataset_->num_tokens() * 999 / 1000);
  for (const int count : random) EXPECT_TRUE(within_5_sigma(count, kEpochs, 0.5));
}

TEST_F(BertPairDatasetTest, SampleDependsOnlyOnSeedEpochAndIndex) {
  const BertPairDataset one = pairs(), other = pairs();
  int64_t different = 0;
  for (int64_t i = one.num_samples() - 1; i >= 0; --i) {
    Sample a, b, next;
    one.fill(i, 1, a);
    other.fill(i, 1, b);
    one.fill(i, 2, next);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.targets, b.targets);
    EXPECT_EQ(a.labels, b.labels);
    different += a.tokens != next.tokens ? 1 : 0;
  }
  EXPECT_GT(different, one.num_samples() * 9 / 10);
}

TEST_F(BertPairDatasetTest, ProducesRequestedShareOfShortSequences) {
  // One-token sentences, so that chunks have exactly their target length.
  Documents documents(2);
  for (auto& document : documents) document.assign(60000, Tokens{kFirstWord});
  write(documents);
  const auto lengths = [&](double probability) {
    const BertPairDataset dataset = pairs(probability);
    std::vector<int64_t> count(static_cast<size_t>(kSeqLength) + 1, 0);
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      Sample sample;
      dataset.fill(i, 0, sample);
      ++count[sample.tokens.size()];
    }
    return count;
  };
  const std::vector<int64_t> never = lengths(0.0);
  // The last chunk of a document has what is left, so it may be shorter than its target.
  EXPECT_GE(never[kSeqLength], std::reduce(never.begin(), never.end()) - 2);
  const std::vector<int64_t> sometimes = lengths(0.1);
  const int64_t all = std::reduce(sometimes.begin(), sometimes.end());
  // One in 28 of the short lengths, 2 to 29 text tokens, is the full length.
  EXPECT_TRUE(within_5_sigma(all - sometimes[kSeqLength], all, 0.1 * 27 / 28));
  const std::vector<int64_t> always = lengths(1.0);
  const int64_t short_ones = std::reduce(always.begin(), always.end());
  for (size_t length = 5; length <= size_t{kSeqLength}; ++length) {
    EXPECT_TRUE(within_5_sigma(always[length], short_ones, 1.0 / 28.0)) << length;
  }
}

TEST_F(BertPairDatasetTest, TruncatesLongTextsEvenlyAtRandomEnds) {
  // Each sentence is longer than a sample.
  Documents documents(3, std::vector<Tokens>(2, Tokens(100)));
  int32_t next = kFirstWord;
  for (auto& document : documents) {
    for (Tokens& sentence : document) {
      std::iota(sentence.begin(), sentence.end(), next);
      next += 100;
    }
  }
  write(documents);
  const BertPairDataset dataset = pairs();
  ASSERT_EQ(dataset.num_samples(), 3);
  int64_t cut = 0, cut_in_front = 0;
  for (int64_t epoch = 0; epoch < 300; ++epoch) {
    for (int64_t i = 0; i < 3; ++i) {
      Sample sample;
      dataset.fill(i, epoch, sample);
      const auto [a, b, label] = split_pair(sample);
      EXPECT_EQ(a.size(), 15u);  // 29 in all; B is truncated first if both are equal
      EXPECT_EQ(b.size(), 14u);
      cut += 85 + 86;
      cut_in_front += (a.front() - kFirstWord) % 100 + (b.front() - kFirstWord) % 100;
    }
  }
  EXPECT_TRUE(within_5_sigma(cut_in_front, cut, 0.5));
  // The shortest possible samples.
  const BertPairDataset shortest = pairs(0.1, 5);
  Sample sample;
  shortest.fill(0, 0, sample);
  EXPECT_EQ(sample.tokens.size(), 5u);
}

TEST_F(BertPairDatasetTest, UsesOnlySentencesEntirelyInRange) {
  write({{{5, 6, 7}, {8, 9}, {10, 11}}, {{12}, {13, 14, 15}, {16, 17}}});
  const auto make = [&](Range tokens) {
    return BertPairDataset(dataset_, tokens, kSeqLength, test_vocabulary(kVocabSize), {}, kSeed);
  };
  const BertPairDataset dataset = make({1, 12});  // neither {5, 6, 7} nor {16, 17}
  EXPECT_EQ(dataset.num_samples(), 2);
  std::set<int32_t> seen;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    for (int64_t i = 0; i < 2; ++i) {
      Sample sample;
      dataset.fill(i, epoch, sample);
      const auto [a, b, label] = split_pair(sample);
      seen.insert(a.begin(), a.end());
      seen.insert(b.begin(), b.end());
    }
  }
  EXPECT_EQ(seen, (std::set<int32_t>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST_F(BertPairDatasetTest, RejectsInvalidArguments) {
  const VocabularyTraits traits = test_vocabulary(kVocabSize);
  const auto message = [&](const Documents& documents, BertDataOptions options,
                           int64_t seq_length = kSeqLength) {
    write(documents);
    options.sentence_pairs = true;
    return error_of([&] {
      make_bert_dataset(dataset_, {0, dataset_->num_tokens()}, seq_length, traits, options, kSeed);
    });
  };
  const Documents good = {{{5, 6}, {7}}, {{8}, {9}}};
  EXPECT_TRUE(names_all(message({{{5, 6}, {7}}, {}, {{}}}, {}),
                        {folder_ / "set", "1 documents", "at least two"}));
  EXPECT_TRUE(names_all(message({{{5, 6}, {}}, {{}, {7}}, {}}, {}),
                        {folder_ / "set", "none of the 2 documents", "two sentences"}));
  EXPECT_TRUE(names_all(message({}, {}), {"0 documents"}));
  EXPECT_TRUE(names_all(message(good, {}, 4), {"seq_length is 4", "at least 5"}));
  EXPECT_TRUE(names_all(message(good, {.packing = true}), {"packed", "packing off"}));
  EXPECT_TRUE(names_all(message(good, {.short_sequence_probability = 1.5}), {"1.5", "0 to 1"}));
  VocabularyTraits incomplete = traits;
  incomplete.special.end.reset();
  EXPECT_TRUE(names_all(error_of([&] {
                          BertPairDataset(dataset_, {0, 3}, 16, incomplete, {}, kSeed);
                        }),
                        {"[SEP]", "wordpiece"}));
}

}  // namespace
}  // namespace tessera
