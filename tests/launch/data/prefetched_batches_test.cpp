#include "launch/data/loading/prefetched_batches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/data/loading/device_batch.h"
#include "launch/data/loading/prefetched_evaluation.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

constexpr int64_t kSeqLength = 4;
constexpr int64_t kVocabSize = 1000;
constexpr int64_t kGlobalBatch = 6;
constexpr int64_t kMicroBatch = 2;

/// Samples of 1 to 4 tokens that identify them. The dataset records its readers, can block them,
/// and has a damaged sample.
class WatchedDataset final : public Dataset {
 public:
  int64_t num_samples() const override { return 100; }
  int64_t seq_length() const override { return kSeqLength; }
  bool has_order() const override { return true; }

  void fill(int64_t sample, int64_t /*epoch*/, Sample& out) const override {
    if (sample >= blocked_from) {
      while (blocked) std::this_thread::yield();
    }
    {
      const std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
      filled_.insert(sample);
    }
    if (sample == damaged) fail("sample {} is damaged", sample);
    const auto tokens = static_cast<size_t>(sample % kSeqLength + 1);
    out.clear();
    out.tokens.assign(tokens, static_cast<int32_t>(sample));
    out.targets.assign(tokens, static_cast<int32_t>(sample + 1));
    out.document_lengths = {static_cast<int32_t>(tokens)};
  }

  void will_fill(int64_t sample, int64_t epoch) const override {
    while (announcing_blocked) std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    announced_.insert(epoch * num_samples() + sample);
    ++announcements_;
  }

  template <typename Set>
  Set copy(const Set& set) const {
    const std::lock_guard lock(mutex_);
    return set;
  }
  std::set<std::thread::id> threads() const { return copy(threads_); }
  std::set<int64_t> filled() const { return copy(filled_); }
  std::set<int64_t> announced() const { return copy(announced_); }
  int64_t announcements() const { return copy(announcements_); }

  std::atomic<int64_t> damaged = -1;
  std::atomic<bool> blocked = false;
  std::atomic<int64_t> blocked_from = 0;
  std::atomic<bool> announcing_blocked = false;

 private:
  mutable std::mutex mutex_;
  mutable std::set<std::thread::id> threads_;
  mutable std::set<int64_t> filled_, announced_;
  mutable int64_t announcements_ = 0;
};

using Values = std::vector<std::vector<int32_t>>;

Values values_of(TokenBatch batch) {
  Values values;
  for (const Tensor* tensor : tensors_of(batch)) {
    if (tensor->dtype() != DType::i32) continue;  // label values, which this data has not
    const auto all = tensor->span<int32_t>();
    values.emplace_back(all.begin(), all.end());
  }
  return values;
}

class PrefetchedBatchesTest : public testing::Test {
 protected:
  PrefetchedBatchesTest() : prefetched_(batches_, {kMicroBatch, kSeqLength}) {}

  /// The micro-batches that load_train() returns for the step.
  std::vector<Values> expected(int64_t first) const {
    std::vector<Values> step;
    BatchBuffers buffers({kMicroBatch, kSeqLength});
    for (int64_t micro = 0; micro < batches_.num_micro_batches(); ++micro) {
      step.push_back(values_of(batches_.load_train(first, micro, buffers)));
    }
    return step;
  }

  static std::vector<Values> values(const std::vector<BatchBuffers>& loaded) {
    std::vector<Values> step;
    for (const BatchBuffers& buffers : loaded) step.push_back(values_of(buffers.batch()));
    return step;
  }

  std::shared_ptr<WatchedDataset> data_ = std::make_shared<WatchedDataset>();
  TokenBatches batches_{data_, nullptr, kVocabSize, 1, {kGlobalBatch, kMicroBatch, 0, 1}};
  PrefetchedBatches prefetched_;
};

TEST_F(PrefetchedBatchesTest, MatchesDirectLoading) {
  for (int64_t step = 0; step < 40; ++step) {  // beyond the end of two epochs
    const int64_t first = step * kGlobalBatch;
    EXPECT_EQ(values(prefetched_.take(first)), expected(first)) << step;
    if (step % 5 != 3) prefetched_.load_next(first + kGlobalBatch);  // otherwise take() loads them
    EXPECT_EQ(values(prefetched_.current()), expected(first)) << step;
  }
}

TEST_F(PrefetchedBatchesTest, ReturnsRequestedStepWhateverWasPrefetched) {
  prefetched_.take(0);
  prefetched_.load_next(6);
  EXPECT_EQ(values(prefetched_.take(60)), expected(60));
  data_->damaged = 70;
  prefetched_.load_next(66);
  EXPECT_EQ(values(prefetched_.take(6)), expected(6));
}

TEST_F(PrefetchedBatchesTest, LoadsOnBackgroundThread) {
  prefetched_.take(0);
  prefetched_.load_next(6);
  prefetched_.take(6);
  ASSERT_EQ(data_->threads().size(), 1u);
  EXPECT_NE(*data_->threads().begin(), std::this_thread::get_id());
  EXPECT_EQ(*data_->filled().rbegin(), 11);
}

TEST_F(PrefetchedBatchesTest, AnnouncesEachStepOnceAndAhead) {
  // The step itself and the announced ones.
  constexpr int64_t kAhead = (1 + PrefetchedBatches::kStepsAnnounced) * kGlobalBatch;
  prefetched_.take(0);
  while (data_->announced().count(kAhead - 1) == 0) std::this_thread::yield();
  EXPECT_EQ(*data_->announced().rbegin(), kAhead - 1);
  int64_t first = 0;
  while (*data_->announced().rbegin() < 2 * kAhead) {
    prefetched_.load_next(first += kGlobalBatch);
    prefetched_.take(first);
    std::this_thread::yield();
  }
  EXPECT_LT(*data_->announced().rbegin(), first + kAhead);
  EXPECT_EQ(data_->announcements(), std::ssize(data_->announced()));
}

TEST_F(PrefetchedBatchesTest, AnnouncingDoesNotBlockSteps) {
  data_->announcing_blocked = true;
  for (int64_t step = 0; step < 5; ++step) {
    EXPECT_EQ(values(prefetched_.take(6 * step)), expected(6 * step));
    prefetched_.load_next(6 * (step + 1));
  }
  data_->announcing_blocked = false;
}

TEST_F(PrefetchedBatchesTest, LoadsFirstStepInAdvance) {
  prefetched_.begin_at(12);
  while (data_->filled().count(17) == 0) std::this_thread::yield();
  EXPECT_EQ(values(prefetched_.take(12)), expected(12));
  data_->damaged = 20;
  prefetched_.begin_at(18);
  prefetched_.begin_at(24);
  EXPECT_EQ(values(prefetched_.take(24)), expected(24));
}

TEST_F(PrefetchedBatchesTest, KeepsCurrentStepWhileLoadingNext) {
  const std::vector<Values> first = expected(0);
  EXPECT_EQ(values(prefetched_.take(0)), first);
  data_->blocked_from = 8;
  data_->blocked = true;
  prefetched_.load_next(6);
  while (data_->filled().count(7) == 0) std::this_thread::yield();  // half of it is loaded
  EXPECT_EQ(values(prefetched_.current()), first);
  EXPECT_THROW(prefetched_.load_next(12), Error);
  data_->blocked = false;
  EXPECT_EQ(values(prefetched_.take(6)), expected(6));
}

TEST_F(PrefetchedBatchesTest, DamagedSampleFailsOnlyItsStep) {
  data_->damaged = 8;
  prefetched_.take(0);
  prefetched_.load_next(6);
  for (int time = 0; time < 2; ++time) {  // it stays damaged
    test::expect_error([&] { prefetched_.take(6); }, {"sample 8 is damaged"});
  }
  EXPECT_EQ(values(prefetched_.take(12)), expected(12));
}

TEST(PrefetchedEvaluation, MatchesDirectLoading) {
  const auto data = std::make_shared<WatchedDataset>();
  const TokenBatches batches(nullptr, data, kVocabSize, 1, {kGlobalBatch, kMicroBatch, 0, 1});
  PrefetchedEvaluation evaluation(batches, {kMicroBatch, kSeqLength});
  BatchBuffers buffers({kMicroBatch, kSeqLength});
  const auto expect_batches = [&](int64_t count) {
    evaluation.start(count);
    for (int64_t batch = 0; batch < count; ++batch) {
      for (int64_t micro = 0; micro < batches.num_micro_batches(); ++micro) {
        ASSERT_TRUE(evaluation.has_next());
        const TokenBatch taken = evaluation.take().batch();
        std::this_thread::yield();  // the next is being loaded
        EXPECT_EQ(values_of(taken), values_of(batches.load_eval(batch, micro, buffers)));
      }
    }
    EXPECT_FALSE(evaluation.has_next());
    test::expect_error([&] { evaluation.take(); }, {"have been read"});
  };
  expect_batches(batches.num_eval_batches());  // the last is not full
  expect_batches(2);
  expect_batches(0);
  evaluation.start(3);
  evaluation.take();
  expect_batches(1);  // replaces an unfinished evaluation
}

TEST(PrefetchedEvaluation, LoadsAheadOnBackgroundThread) {
  const auto data = std::make_shared<WatchedDataset>();
  const TokenBatches batches(nullptr, data, kVocabSize, 1, {kGlobalBatch, kMicroBatch, 0, 1});
  PrefetchedEvaluation evaluation(batches, {kMicroBatch, kSeqLength});
  evaluation.start(2);
  evaluation.take();
  while (data->filled().count(3) == 0) std::this_thread::yield();  // before it is requested
  EXPECT_EQ(data->announced().size(), 12u);
  ASSERT_EQ(data->threads().size(), 1u);
  EXPECT_NE(*data->threads().begin(), std::this_thread::get_id());
}

TEST(PrefetchedEvaluation, DamagedSampleFailsOnlyItsMicroBatch) {
  const auto data = std::make_shared<WatchedDataset>();
  const TokenBatches batches(nullptr, data, kVocabSize, 1, {kGlobalBatch, kMicroBatch, 0, 1});
  PrefetchedEvaluation evaluation(batches, {kMicroBatch, kSeqLength});
  data->damaged = 3;
  evaluation.start(2);
  evaluation.take();
  test::expect_error([&] { evaluation.take(); }, {"sample 3 is damaged"});
  EXPECT_FALSE(evaluation.has_next());
  data->damaged = -1;
  evaluation.start(1);
  evaluation.take();
  EXPECT_EQ(evaluation.take().batch().tokens.data<int32_t>()[0], 2);
}

TEST_F(PrefetchedBatchesTest, DestructorStopsLoading) {
  {
    PrefetchedBatches ending(batches_, {kMicroBatch, kSeqLength});
    ending.take(0);
    ending.load_next(6);
  }
  const std::set<int64_t> filled = data_->filled();
  EXPECT_EQ(filled.count(5), 1u);
  std::this_thread::yield();
  EXPECT_EQ(data_->filled(), filled) << "a thread still loads";
}

}  // namespace
}  // namespace tessera
