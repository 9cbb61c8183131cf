#include "launch/data/datasets/bert_dataset.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "core/random.h"
#include "launch/data/loading/token_batches.h"
#include "tests/launch/data/test_files.h"
#include "tests/launch/data/vocabulary.h"

namespace tessera {
namespace {

constexpr int64_t kVocabSize = 5000;
constexpr int64_t kSeqLength = 16;
constexpr uint64_t kSeed = 11;
using Tokens = std::vector<int32_t>;

/// Documents of 0 to 39 tokens; no two tokens are equal.
class BertDatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int32_t next = kFirstWord;
    for (uint64_t i = 0; i < 60; ++i) {
      const uint32_t bits = random_bits({3, RandomPurpose::sampling, 0, 0}, i);
      documents_.emplace_back(bits % 40);
      std::iota(documents_.back().begin(), documents_.back().end(), next);
      next += static_cast<int32_t>(documents_.back().size());
    }
    write_dataset(folder_ / "set", documents_);
    dataset_ = std::make_shared<const IndexedDataset>(folder_ / "set", kVocabSize);
    all_ = {0, dataset_->num_tokens()};
  }

  BertDataset bert(Range tokens, bool packing, uint64_t seed = kSeed,
                   MaskUnit unit = MaskUnit::token) const {
    return {dataset_,       tokens,  kSeqLength, test_vocabulary(kVocabSize),
            {.unit = unit}, packing, seed};
  }

  /// The expected pieces of a range of tokens, including [CLS] and [SEP].
  std::vector<Tokens> expected_pieces(Range range) const {
    std::vector<Tokens> pieces;
    int64_t position = 0;
    for (const Tokens& document : documents_) {
      Tokens piece;
      const auto finish = [&] {
        if (piece.empty()) return;
        piece.insert(piece.begin(), kStart);
        piece.push_back(kEnd);
        pieces.push_back(std::move(piece));
        piece.clear();
      };
      for (const int32_t token : document) {
        if (range.contains(position++)) piece.push_back(token);
        if (piece.size() == kSeqLength - 2) finish();
      }
      finish();
    }
    return pieces;
  }

  TestFolder folder_;
  std::vector<Tokens> documents_;
  std::shared_ptr<const IndexedDataset> dataset_;
  Range all_;
};

TEST_F(BertDatasetTest, CutsDocumentsIntoPieces) {
  for (const Range range : {all_, Range{100, 101}, Range{17, 700}}) {
    const BertDataset dataset = bert(range, false);
    std::vector<Tokens> pieces;
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      Sample sample;
      sample.labels = sample.token_types = {1, 2, 3};
      dataset.fill(i, 0, sample);
      pieces.push_back(unmasked(sample));
      EXPECT_EQ(sample.document_lengths, Tokens{static_cast<int32_t>(pieces.back().size())});
      EXPECT_TRUE(sample.labels.empty());
      EXPECT_TRUE(sample.token_types.empty());
      EXPECT_EQ(dataset.piece_tokens(i).size(), static_cast<int64_t>(pieces.back().size()) - 2);
    }
    EXPECT_EQ(pieces, expected_pieces(range));
  }
  Sample sample;
  EXPECT_THROW(bert(all_, false).fill(-1, 0, sample), Error);
  EXPECT_THROW(bert(all_, false).fill(bert(all_, false).num_samples(), 0, sample), Error);
}

TEST_F(BertDatasetTest, PackingKeepsAllPiecesAndTheirMasks) {
  const BertDataset apart = bert(all_, false), packed = bert(all_, true);
  ASSERT_EQ(packed.num_pieces(), apart.num_samples());
  EXPECT_LT(packed.num_samples(), apart.num_samples());
  for (const int64_t epoch : {0, 3}) {
    std::vector<std::pair<Tokens, Tokens>> alone, together;  // tokens and targets
    Sample sample;
    for (int64_t i = 0; i < apart.num_samples(); ++i) {
      apart.fill(i, epoch, sample);
      alone.emplace_back(sample.tokens, sample.targets);
    }
    for (int64_t i = 0; i < packed.num_samples(); ++i) {
      packed.fill(i, epoch, sample);
      EXPECT_LE(sample.tokens.size(), static_cast<size_t>(kSeqLength));
      EXPECT_EQ(sample.targets.size(), sample.tokens.size());
      auto token = sample.tokens.begin(), target = sample.targets.begin();
      for (const int32_t length : sample.document_lengths) {
        together.emplace_back(Tokens(token, token + length), Tokens(target, target + length));
        token += length;
        target += length;
      }
      EXPECT_EQ(token, sample.tokens.end());
    }
    std::ranges::sort(alone);
    std::ranges::sort(together);
    EXPECT_EQ(together, alone);
  }
}

TEST_F(BertDatasetTest, MasksDifferByEpochAndSeed) {
  const auto targets = [&](uint64_t seed, int64_t epoch) {
    const BertDataset dataset = bert(all_, false, seed);
    Tokens all;
    Sample sample;
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      dataset.fill(i, epoch, sample);
      all.insert(all.end(), sample.targets.begin(), sample.targets.end());
    }
    return all;
  };
  const Tokens first = targets(kSeed, 0);
  EXPECT_EQ(targets(kSeed, 0), first);
  EXPECT_NE(targets(kSeed, 1), first);
  EXPECT_NE(targets(kSeed + 1, 0), first);
  const auto n =
      static_cast<int64_t>(std::ranges::count_if(first, [](int32_t t) { return t >= 0; }));
  EXPECT_TRUE(within_5_sigma(n, dataset_->num_tokens(), 0.15));
}

/// The tokens, documents and targets of a global batch, over all ranks and micro-batches in order.
std::vector<Tokens> global_batch(const std::shared_ptr<const Dataset>& dataset, int64_t first,
                                 int64_t global, int64_t micro, int data_size) {
  std::vector<Tokens> parts(3);
  BatchBuffers buffers({micro, kSeqLength});
  for (int rank = 0; rank < data_size; ++rank) {
    const TokenBatches batches(dataset, nullptr, kVocabSize, 5, {global, micro, rank, data_size});
    for (int64_t m = 0; m < batches.num_micro_batches(); ++m) {
      const TokenBatch batch = batches.load_train(first, m, buffers);
      const auto append = [](Tokens& part, std::span<const int32_t> values) {
        part.insert(part.end(), values.begin(), values.end());
      };
      append(parts[0], batch.tokens.span<int32_t>());
      append(parts[1], batch.positions.span<int32_t>());
      append(parts[2], batch.targets.span<int32_t>());
    }
  }
  return parts;
}

TEST_F(BertDatasetTest, BatchIsIndependentOfLayoutAndResume) {
  for (const bool packing : {false, true}) {
    const auto dataset = std::make_shared<const BertDataset>(bert(all_, packing));
    for (const int64_t first : {int64_t{0}, dataset->num_samples() - 5}) {
      const std::vector<Tokens> whole = global_batch(dataset, first, 8, 8, 1);
      for (const auto& [micro, size] : {std::pair{4, 1}, {1, 1}, {4, 2}, {1, 2}, {2, 4}, {1, 8}}) {
        EXPECT_EQ(global_batch(dataset, first, 8, micro, size), whole);
      }
      std::vector<Tokens> steps = global_batch(dataset, first, 2, 2, 1);
      for (int64_t step = 1; step < 4; ++step) {
        const auto next = global_batch(dataset, first + 2 * step, 2, 1, 2);
        for (size_t i = 0; i < steps.size(); ++i) {
          steps[i].insert(steps[i].end(), next[i].begin(), next[i].end());
        }
      }
      EXPECT_EQ(steps, whole);
    }
  }
}

TEST_F(BertDatasetTest, RejectsInvalidArguments) {
  const auto message = [&](Range tokens, int64_t seq_length, const VocabularyTraits& traits) {
    return error_of([&] { BertDataset(dataset_, tokens, seq_length, traits, {}, false, kSeed); });
  };
  const VocabularyTraits traits = test_vocabulary(kVocabSize);
  EXPECT_TRUE(names_all(message(all_, 2, traits), {"seq_length is 2", "at least 3"}));
  EXPECT_TRUE(names_all(message({5, 5}, 16, traits), {folder_ / "set", "[5, 5)", "at least one"}));
  EXPECT_TRUE(names_all(message({5, all_.end + 1}, 16, traits), {"not within"}));
  EXPECT_TRUE(names_all(message({-1, 5}, 16, traits), {"not within"}));
  VocabularyTraits incomplete = traits;
  incomplete.special.start.reset();
  incomplete.special.end.reset();
  EXPECT_TRUE(names_all(message(all_, 16, incomplete), {"[CLS]", "[SEP]", "wordpiece"}));
  VocabularyTraits bytes;
  bytes.vocab_size = 257;
  EXPECT_TRUE(names_all(message(all_, 16, bytes), {"[CLS]", "[SEP]", "[MASK]", "wordpiece"}));
  // A vocabulary smaller than the data's.
  const BertDataset small(dataset_, all_, 16, test_vocabulary(10), {}, false, kSeed);
  Sample sample;
  EXPECT_TRUE(names_all(error_of([&] { small.fill(3, 0, sample); }), {"vocabulary", "10"}));
}

}  // namespace
}  // namespace tessera
