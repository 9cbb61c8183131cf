#include <numeric>

#include "core/memory.h"
#include "data_test_files.h"
#include "launch/data/batch_source.h"
#include "launch/data/sample_order.h"

namespace tessera {
namespace {

constexpr int64_t kSeqLength = 5;
constexpr int64_t kGlobalBatch = 8;
constexpr uint64_t kSeed = 42;
using Row = std::vector<int32_t>;

class BatchSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<int32_t> document(200);
    std::iota(document.begin(), document.end(), 0);
    write_dataset(folder_ / "set", {document});
    const auto tokens = std::make_shared<IndexedDataset>(folder_ / "set");
    train_ = std::make_shared<GptDataset>(tokens, Range{0, 141}, kSeqLength);   // 28 samples
    eval_ = std::make_shared<GptDataset>(tokens, Range{141, 200}, kSeqLength);  // 11 samples
  }

  BatchSource source(int64_t micro, int rank, int size) const {
    return {train_, eval_, kSeed, {kGlobalBatch, micro, rank, size}};
  }

  /// The rows (tokens, then targets) of one global batch, put together from all ranks'
  /// micro-batches.
  template <typename Load>
  static std::vector<Row> global_batch(int64_t micro, int data_size, const BatchSourceTest& test,
                                       Load&& load) {
    std::vector<Row> rows;
    for (int rank = 0; rank < data_size; ++rank) {
      const BatchSource batches = test.source(micro, rank, data_size);
      for (int64_t m = 0; m < batches.num_micro_batches(); ++m) {
        EXPECT_EQ(batches.global_rows(m).begin, static_cast<int64_t>(rows.size()));
        const OwnedTensor tokens({micro, kSeqLength}, DType::i32);
        const OwnedTensor targets({micro, kSeqLength}, DType::i32);
        load(batches, m, tokens.tensor, targets.tensor);
        for (int64_t b = 0; b < micro; ++b) {
          const auto inputs = tokens.tensor.slice(b, b + 1).span<int32_t>();
          const auto outputs = targets.tensor.slice(b, b + 1).span<int32_t>();
          rows.emplace_back(inputs.begin(), inputs.end());
          rows.back().insert(rows.back().end(), outputs.begin(), outputs.end());
        }
      }
    }
    return rows;
  }

  static Row sample_row(const GptDataset& dataset, int64_t sample) {
    Row row(2 * kSeqLength);
    dataset.fill(sample, std::span(row).first(kSeqLength), std::span(row).last(kSeqLength));
    return row;
  }

  TestFolder folder_;
  std::shared_ptr<const GptDataset> train_;
  std::shared_ptr<const GptDataset> eval_;
};

const std::vector<std::pair<int64_t, int>> kLayouts = {{8, 1}, {4, 1}, {1, 1}, {4, 2},
                                                       {2, 2}, {2, 4}, {1, 4}, {1, 8}};

TEST_F(BatchSourceTest, TheGlobalBatchIsTheSameForEveryLayout) {
  ASSERT_EQ(train_->num_samples(), 28);
  // The steps cross the end of the first epoch, and the second starts where no step of 8 would.
  for (const int64_t first : {0, 8, 24, 29}) {
    std::vector<Row> expected;
    for (int64_t k = first; k < first + kGlobalBatch; ++k) {
      expected.push_back(sample_row(*train_, sample_at(kSeed, 28, k)));
    }
    for (const auto& [micro, data_size] : kLayouts) {
      EXPECT_EQ(
          global_batch(micro, data_size, *this,
                       [&](const BatchSource& batches, int64_t m, Tensor tokens, Tensor targets) {
                         batches.load_train(first, m, tokens, targets);
                       }),
          expected)
          << "micro " << micro << ", data ranks " << data_size;
    }
  }
}

TEST_F(BatchSourceTest, AnEpochUsesEverySampleOnce) {
  const BatchSource batches = source(8, 0, 1);
  const OwnedTensor tokens({8, kSeqLength}, DType::i32);
  const OwnedTensor targets({8, kSeqLength}, DType::i32);
  std::vector<int> uses(28, 0);
  for (int64_t first = 0; first < 2 * 28; first += 8) {
    batches.load_train(first, 0, tokens.tensor, targets.tensor);
    for (int64_t b = 0; b < 8; ++b) {
      ++uses[static_cast<size_t>(tokens.tensor.slice(b, b + 1).span<int32_t>()[0] / kSeqLength)];
    }
  }
  EXPECT_EQ(uses, std::vector<int>(28, 2));
}

TEST_F(BatchSourceTest, EvalIsInNaturalOrderAndPadsWithIgnoredTargets) {
  ASSERT_EQ(eval_->num_samples(), 11);
  ASSERT_EQ(source(8, 0, 1).num_eval_batches(), 2);
  Row nothing(2 * kSeqLength, 0);
  std::fill(nothing.begin() + kSeqLength, nothing.end(), -1);
  for (const int64_t batch : {0, 1}) {
    std::vector<Row> expected;
    for (int64_t k = batch * kGlobalBatch; k < (batch + 1) * kGlobalBatch; ++k) {
      expected.push_back(k < 11 ? sample_row(*eval_, k) : nothing);
    }
    for (const auto& [micro, data_size] : kLayouts) {
      EXPECT_EQ(global_batch(micro, data_size, *this,
                             [&](const BatchSource& batches, int64_t m, Tensor tokens,
                                 Tensor targets) { batches.load_eval(batch, m, tokens, targets); }),
                expected)
          << "micro " << micro << ", data ranks " << data_size;
    }
  }
}

TEST_F(BatchSourceTest, NamesWhatDoesNotDivide) {
  EXPECT_TRUE(names_all(message_of([&] { source(1, 0, 3); }), {"batch.global is 8", "3"}));
  EXPECT_TRUE(names_all(message_of([&] { source(3, 0, 2); }), {"batch.micro = 3", "is 4"}));
  EXPECT_THROW(source(0, 0, 1), Error);
  EXPECT_THROW(source(1, 2, 2), Error);
  EXPECT_THROW(source(1, -1, 2), Error);
}

TEST_F(BatchSourceTest, NamesWrongUses) {
  const BatchSource batches = source(2, 0, 2);
  const OwnedTensor good({2, kSeqLength}, DType::i32);
  const OwnedTensor wide({2, kSeqLength + 1}, DType::i32);
  const OwnedTensor real({2, kSeqLength}, DType::f32);
  EXPECT_TRUE(names_all(message_of([&] { batches.load_train(0, 0, wide.tensor, good.tensor); }),
                        {"tokens", "(2, 5)", "(2, 6)"}));
  EXPECT_TRUE(names_all(message_of([&] { batches.load_train(0, 0, good.tensor, real.tensor); }),
                        {"targets", "int32", "fp32"}));
  EXPECT_THROW(batches.load_train(0, 2, good.tensor, good.tensor), Error);
  EXPECT_THROW(batches.load_train(-9, 0, good.tensor, good.tensor), Error);
  EXPECT_THROW(batches.load_eval(2, 0, good.tensor, good.tensor), Error);
  EXPECT_THROW(batches.load_eval(-1, 0, good.tensor, good.tensor), Error);
  const BatchSource no_eval(train_, nullptr, kSeed, {kGlobalBatch, 2, 0, 2});
  EXPECT_EQ(no_eval.num_eval_batches(), 0);
  EXPECT_THROW(no_eval.load_eval(0, 0, good.tensor, good.tensor), Error);
}

}  // namespace
}  // namespace tessera
