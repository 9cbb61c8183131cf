#include "launch/data/loading/token_batches.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "core/ops/cross_entropy.h"
#include "launch/data/sampling/sample_order.h"
#include "tests/launch/data/test_files.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kSeqLength = 6;
constexpr int64_t kVocabSize = 1000;
constexpr int64_t kGlobalBatch = 8;
constexpr uint64_t kSeed = 42;
using Row = std::vector<int32_t>;

/// Sample i has i % 7 tokens, which identify sample and epoch, in documents of up to 2.
class SyntheticDataset final : public Dataset {
 public:
  explicit SyntheticDataset(int64_t num_samples) : num_samples_(num_samples) {}

  int64_t num_samples() const override { return num_samples_; }
  int64_t seq_length() const override { return kSeqLength; }

  void fill(int64_t sample, int64_t epoch, Sample& out) const override {
    out.clear();
    const auto n = static_cast<int32_t>(sample % (kSeqLength + 1));
    const auto value = static_cast<int32_t>(10 * sample + epoch);
    for (int32_t i = 0; i < n; ++i) {
      out.tokens.push_back(value);
      out.token_types.push_back(i % 2);
      out.targets.push_back(i % 3 == 1 ? value + 1 : kIgnoreTarget);
    }
    for (int32_t left = n; left > 0; left -= 2) {
      out.document_lengths.push_back(std::min(left, 2));
      out.labels.push_back(left % 2 == 0 ? value : kIgnoreTarget);
    }
  }

 private:
  int64_t num_samples_;
};

Row to_row(const Tensor& tensor) {
  const std::span<int32_t> values = tensor.span<int32_t>();
  return {values.begin(), values.end()};
}

/// The rows of a batch, including padding: token, position, token type and target of every place,
/// then document lengths and labels.
std::vector<Row> unpacked(const TokenBatch& batch) {
  const size_t width = 4 * static_cast<size_t>(batch.seq_length);
  std::vector<Row> rows(static_cast<size_t>(batch.sequences), Row(width, kIgnoreTarget));
  const Row tokens = to_row(batch.tokens), positions = to_row(batch.positions);
  const Row types = to_row(batch.token_types), places = to_row(batch.padded_rows);
  const Row documents = to_row(batch.documents), labels = to_row(batch.labels);
  const auto place_in_row = [&](size_t n) {
    return 4 * static_cast<size_t>(places[n] % batch.seq_length);
  };
  const auto row_at = [&](size_t n) -> Row& {
    return rows[static_cast<size_t>(places[n] / batch.seq_length)];
  };
  for (size_t n = 0; n < tokens.size(); ++n) {
    int32_t* place = row_at(n).data() + place_in_row(n);
    place[0] = tokens[n];
    place[1] = positions[n];
    place[2] = types[n];
  }
  const Row target_rows = to_row(batch.target_rows), targets = to_row(batch.targets);
  for (size_t m = 0; m < targets.size(); ++m) {
    const auto n = static_cast<size_t>(target_rows[m]);
    row_at(n)[place_in_row(n) + 3] = targets[m];
  }
  for (size_t s = 0; s < labels.size(); ++s) {
    Row& row = row_at(static_cast<size_t>(documents[s]));
    row.push_back(documents[s + 1] - documents[s]);
    row.push_back(labels[s]);
  }
  return rows;
}

Row expected_row(const Dataset& dataset, int64_t sample, int64_t epoch) {
  Sample filled;
  dataset.fill(sample, epoch, filled);
  Row row(4 * static_cast<size_t>(kSeqLength), kIgnoreTarget);
  size_t n = 0;
  for (const int32_t length : filled.document_lengths) {
    for (int32_t position = 0; position < length; ++position, ++n) {
      row[4 * n] = filled.tokens[n];
      row[4 * n + 1] = position;
      row[4 * n + 2] = filled.token_types[n];
      row[4 * n + 3] = filled.targets[n];
    }
  }
  for (size_t d = 0; d < filled.document_lengths.size(); ++d) {
    row.push_back(filled.document_lengths[d]);
    row.push_back(filled.labels[d]);
  }
  return row;
}

class TokenBatchesTest : public ::testing::Test {
 protected:
  TokenBatches batches(int64_t micro, int rank, int size) const {
    return {train_, eval_, kVocabSize, kSeed, {kGlobalBatch, micro, rank, size}};
  }

  /// The rows of one global batch, collected from all ranks' micro-batches.
  template <typename Load>
  std::vector<Row> global_batch(int64_t micro, int data_size, Load&& load) const {
    std::vector<Row> rows;
    BatchBuffers buffers({micro, kSeqLength});
    for (int rank = 0; rank < data_size; ++rank) {
      const TokenBatches source = batches(micro, rank, data_size);
      for (int64_t m = 0; m < source.num_micro_batches(); ++m) {
        EXPECT_EQ(source.global_rows(m).begin, static_cast<int64_t>(rows.size()));
        for (Row& row : unpacked(load(source, m, buffers))) rows.push_back(std::move(row));
      }
    }
    return rows;
  }

  std::shared_ptr<const Dataset> train_ = std::make_shared<SyntheticDataset>(28);
  std::shared_ptr<const Dataset> eval_ = std::make_shared<SyntheticDataset>(11);
};

const std::vector<std::pair<int64_t, int>> kLayouts = {{8, 1}, {4, 1}, {1, 1}, {4, 2},
                                                       {2, 2}, {2, 4}, {1, 4}, {1, 8}};

TEST_F(TokenBatchesTest, GlobalBatchIsIndependentOfLayout) {
  // The steps cross the end of the first epoch; the second epoch does not start at a multiple of 8.
  for (const int64_t first : {0, 8, 24, 29}) {
    std::vector<Row> expected;
    for (int64_t k = first; k < first + kGlobalBatch; ++k) {
      expected.push_back(expected_row(*train_, sample_at(kSeed, 28, k), k / 28));
    }
    for (const auto& [micro, data_size] : kLayouts) {
      EXPECT_EQ(global_batch(micro, data_size,
                             [&](const TokenBatches& source, int64_t m, BatchBuffers& buffers) {
                               return source.load_train(first, m, buffers);
                             }),
                expected)
          << "micro " << micro << ", data ranks " << data_size;
    }
  }
}

TEST_F(TokenBatchesTest, EvaluatesInNaturalOrderAndPadsWithEmptyRows) {
  ASSERT_EQ(batches(8, 0, 1).num_eval_batches(), 2);
  for (const int64_t batch : {0, 1}) {
    std::vector<Row> expected;
    for (int64_t k = batch * kGlobalBatch; k < (batch + 1) * kGlobalBatch; ++k) {
      expected.push_back(k < 11 ? expected_row(*eval_, k, 0) : expected_row(*eval_, 0, 0));
    }
    for (const auto& [micro, data_size] : kLayouts) {
      EXPECT_EQ(global_batch(micro, data_size,
                             [&](const TokenBatches& source, int64_t m, BatchBuffers& buffers) {
                               return source.load_eval(batch, m, buffers);
                             }),
                expected)
          << "micro " << micro << ", data ranks " << data_size;
    }
  }
  // Samples 0 and 7 have no tokens, and neither do rows beyond the last.
  BatchBuffers buffers({1, kSeqLength});
  const TokenBatch nothing = batches(1, 7, 8).load_eval(1, 0, buffers);
  EXPECT_EQ(nothing.num_tokens(), 0);
  EXPECT_EQ(nothing.num_documents(), 0);
  EXPECT_EQ(nothing.num_targets(), 0);
  EXPECT_EQ(nothing.documents.span<int32_t>()[0], 0);
}

TEST_F(TokenBatchesTest, RejectsMismatchedSizes) {
  EXPECT_TRUE(names_all(error_of([&] { batches(1, 0, 3); }), {"batch.global is 8", "3"}));
  EXPECT_TRUE(names_all(error_of([&] { batches(3, 0, 2); }), {"batch.micro = 3", "is 4"}));
  EXPECT_THROW(batches(0, 0, 1), Error);
  EXPECT_THROW(batches(1, 2, 2), Error);
  EXPECT_THROW(batches(1, -1, 2), Error);
  const TokenBatches source = batches(2, 0, 2);
  BatchBuffers buffers({2, kSeqLength});
  EXPECT_THROW(source.load_train(0, 2, buffers), Error);
  EXPECT_THROW(source.load_train(-9, 0, buffers), Error);
  EXPECT_THROW(source.load_eval(2, 0, buffers), Error);
  EXPECT_THROW(source.load_eval(-1, 0, buffers), Error);
  BatchBuffers other({3, kSeqLength});
  EXPECT_TRUE(names_all(error_of([&] { source.load_train(0, 0, other); }), {"3", "micro", "2"}));
  const TokenBatches no_eval(train_, nullptr, kVocabSize, kSeed, {kGlobalBatch, 2, 0, 2});
  EXPECT_EQ(no_eval.num_eval_batches(), 0);
  EXPECT_THROW(no_eval.load_eval(0, 0, buffers), Error);
  const TokenBatches few(train_, eval_, 50, kSeed, {kGlobalBatch, 8, 0, 1});
  BatchBuffers all({8, kSeqLength});
  EXPECT_TRUE(names_all(error_of([&] { few.load_train(0, 0, all); }),
                        {"training data: sample", "token 0 is", "0 to 49"}));
  EXPECT_TRUE(names_all(error_of([&] { few.load_eval(0, 0, all); }),
                        {"evaluation data: sample 5", "token 0 is 50", "0 to 49"}));
}

TEST(BatchBuffers, CompactsRows) {
  BatchBuffers buffers({4, 5});
  for (int round = 0; round < 2; ++round) {
    buffers.clear();
    buffers.append({{7, 8, 9}, {}, {-1, 4, -1}, {1, 2}, {}}, 10, "data", 0);
    buffers.append_empty();
    buffers.append({{1, 2, 3, 4, 5}, {0, 0, 1, 1, 1}, {6, -1, -1, -1, 5}, {5}, {3}}, 10, "data", 1);
    const TokenBatch batch = buffers.batch();
    EXPECT_EQ(to_row(batch.tokens), (Row{7, 8, 9, 1, 2, 3, 4, 5}));
    EXPECT_EQ(to_row(batch.positions), (Row{0, 0, 1, 0, 1, 2, 3, 4}));
    EXPECT_EQ(to_row(batch.token_types), (Row{0, 0, 0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(to_row(batch.padded_rows), (Row{0, 1, 2, 10, 11, 12, 13, 14}));
    EXPECT_EQ(to_row(batch.documents), (Row{0, 1, 3, 8}));
    EXPECT_EQ(to_row(batch.target_rows), (Row{1, 3, 7}));
    EXPECT_EQ(to_row(batch.targets), (Row{4, 6, 5}));
    EXPECT_EQ(to_row(batch.labels), (Row{-1, -1, 3}));
  }
}

/// A row with a target at every third token, and a label.
Sample row_of_length(int64_t length) {
  Sample sample;
  const auto n = static_cast<size_t>(length);
  for (size_t i = 0; i < n; ++i) sample.targets.push_back(i % 3 == 1 ? 4 : -1);
  sample.tokens.assign(n, 7);
  sample.document_lengths = {static_cast<int32_t>(length)};
  sample.labels = {1};
  return sample;
}

TEST(BatchBuffers, PadsBehindItsDocuments) {
  BatchShape shape{64, 32};
  shape.hides_targets = shape.repeats_sizes = true;
  BatchBuffers buffers(shape);
  for (int row = 0; row < 64; ++row) buffers.append(row_of_length(14 + row % 7), 10, "data", row);
  const TokenBatch real = buffers.batch(), padded = buffers.padded_batch();
  const BatchSizes sizes = {padded.num_tokens(), padded.num_documents(), padded.num_targets()};
  EXPECT_EQ(sizes, (BatchSizes{1120, 68, 368}));
  EXPECT_EQ(real.num_tokens(), 1085);
  EXPECT_EQ(real.num_targets(), 365);

  // The batch itself is unchanged, and the front of the padded one.
  const Row rows = to_row(real.target_rows), documents = to_row(padded.documents);
  const Row padded_targets = to_row(padded.targets), padded_rows = to_row(padded.target_rows);
  EXPECT_TRUE(std::ranges::equal(to_row(real.documents), std::span(documents).first(65)));
  EXPECT_EQ(documents.back(), 1120);
  EXPECT_TRUE(std::ranges::is_sorted(padded_rows, std::less_equal<>()));
  Row with_loss;
  for (size_t i = 0; i < padded_rows.size(); ++i) {
    if (padded_targets[i] != kIgnoreTarget) with_loss.push_back(padded_rows[i]);
  }
  EXPECT_EQ(with_loss, rows);
  for (size_t d = 64; d < 68; ++d) {
    EXPECT_LE(1, documents[d + 1] - documents[d]);
    EXPECT_GE(32, documents[d + 1] - documents[d]);
    EXPECT_EQ(to_row(padded.labels)[d], kIgnoreTarget);
    EXPECT_EQ(to_row(padded.positions)[static_cast<size_t>(documents[d])], 0);
  }
  for (int64_t row = 1085; row < 1120; ++row) EXPECT_EQ(padded.hidden.data<uint8_t>()[row], 0);
}

TEST(PaddedSizes, AreFewAndLittleLarger) {
  constexpr int64_t kRows = 32, kLength = 512;
  std::set<std::tuple<int64_t, int64_t, int64_t>> distinct;
  double tokens = 0.0, added = 0.0;
  for (int64_t n = 13000; n < 16000; n += 7) {
    for (int64_t targets = n * 14 / 100; targets < n * 16 / 100; targets += 11) {
      const BatchSizes real = {n, kRows, targets};
      const BatchSizes sizes = padded_sizes(real, kRows, kLength, false);
      distinct.emplace(sizes.tokens, sizes.documents, sizes.targets);
      tokens += static_cast<double>(n);
      added += static_cast<double>(sizes.tokens - n);
      ASSERT_LE(sizes.tokens, std::min(kRows * kLength, n + n * 4 / 100));
      ASSERT_LE(sizes.documents - kRows, sizes.tokens - n);
      ASSERT_LE(sizes.tokens - n, (sizes.documents - kRows) * kLength);
      ASSERT_LE(sizes.targets - targets, sizes.tokens / 64);
    }
  }
  EXPECT_LE(distinct.size(), 60U);  // of 13,000
  EXPECT_LT(added / tokens, 0.015);
  // Full and uniform batches have one size already, and one of few tokens gets no padding.
  EXPECT_EQ(padded_sizes({16384, 32, 16384}, 32, 512, true), (BatchSizes{16384, 32, 16384}));
  EXPECT_EQ(padded_sizes({16384, 90, 16300}, 32, 512, false), (BatchSizes{16384, 90, 16384}));
  EXPECT_EQ(padded_sizes({20, 3, 4}, 4, 8, false), (BatchSizes{20, 3, 4}));
  EXPECT_EQ(padded_sizes({0, 0, 0}, 4, 8, false), (BatchSizes{0, 0, 0}));
}

TEST(BatchBuffers, HoldsLabelValuesOfEachRow) {
  BatchBuffers buffers({3, 4, 2});
  buffers.append({{1, 2}, {}, {-1, -1}, {2}, {0}, {0.5f, 1.0f}}, 5, "data", 0);
  buffers.append_empty();
  buffers.append({{3}, {}, {-1}, {1}, {0}, {0.0f, -2.0f}}, 5, "data", 1);
  const Tensor values = buffers.batch().label_values;
  EXPECT_EQ(values.shape(), (Shape{2, 2}));
  EXPECT_EQ(test::to_doubles(values), (std::vector<double>{0.5, 1.0, 0.0, -2.0}));
  EXPECT_EQ(full_batch_on_meta({3, 4, 2}).label_values.shape(), (Shape{3, 2}));
  buffers.clear();
  EXPECT_TRUE(names_all(error_of([&] {
                          buffers.append({{1}, {}, {-1}, {1}, {0}, {1.0f}}, 5, "data", 7);
                        }),
                        {"sample 7", "1 label values, but the model predicts 2"}));
  EXPECT_TRUE(names_all(
      error_of([&] {
        buffers.append({{1, 2}, {}, {-1, -1}, {1, 1}, {0, 0}, {1.0f, 1.0f}}, 5, "data", 7);
      }),
      {"sample 7", "2 documents, but each row must be one"}));
}

TEST(BatchBuffers, HoldsSourcesOfDocuments) {
  BatchBuffers buffers({.sequences = 3, .seq_length = 4, .source_length = 5});
  Sample sample{{1, 2, 3}, {}, {2, 3, 4}, {1, 2}, {}};
  sample.source_tokens = {4, 3, 2, 1};
  sample.source_lengths = {3, 1};
  buffers.append(sample, 5, "data", 0);
  buffers.append_empty();
  sample = {{1}, {}, {2}, {1}, {}};
  sample.source_tokens = {3, 2};
  sample.source_lengths = {2};
  buffers.append(sample, 5, "data", 1);
  const SourceTokens source = buffers.batch().source;
  EXPECT_EQ(source.seq_length, 5);
  EXPECT_EQ(to_row(source.tokens), (Row{4, 3, 2, 1, 3, 2}));
  EXPECT_EQ(to_row(source.positions), (Row{0, 1, 2, 0, 0, 1}));
  EXPECT_EQ(to_row(source.padded_rows), (Row{0, 1, 2, 3, 10, 11}));
  EXPECT_EQ(to_row(source.documents), (Row{0, 3, 4, 6}));
  const TokenBatch meta = full_batch_on_meta({.sequences = 3, .seq_length = 4, .source_length = 5});
  EXPECT_EQ(meta.source.tokens.shape(), (Shape{15}));
  EXPECT_EQ(meta.source.documents.shape(), (Shape{13}));

  buffers.clear();
  const auto message = [&](std::vector<int32_t> tokens, std::vector<int32_t> lengths) {
    sample.source_tokens = std::move(tokens);
    sample.source_lengths = std::move(lengths);
    return error_of([&] { buffers.append(sample, 5, "data", 7); });
  };
  EXPECT_TRUE(names_all(message({1, 1, 1, 1, 1, 1}, {6}), {"sample 7", "source has 6", "up to 5"}));
  EXPECT_TRUE(names_all(message({1}, {}), {"0 sources for 1 documents"}));
  EXPECT_TRUE(names_all(message({}, {0}), {"a source has 0 tokens"}));
  EXPECT_TRUE(names_all(message({1}, {2}), {"2 tokens together, but it has 1"}));
  EXPECT_TRUE(names_all(message({5}, {1}), {"source token 0 is 5", "0 to 4"}));
  EXPECT_EQ(buffers.batch().source.num_tokens(), 0);
  BatchBuffers without({1, 4});
  EXPECT_TRUE(names_all(error_of([&] { without.append(sample, 9, "data", 7); }), {"up to 0"}));
}

TEST(BatchBuffers, HoldsAFullBatch) {
  BatchBuffers buffers({3, 4});
  for (int row = 0; row < 3; ++row) {
    buffers.append({{1, 2, 3, 4}, {}, {1, 2, 3, 4}, {1, 1, 1, 1}, {0, 1, 2, 3}}, 5, "data", row);
  }
  const TokenBatch batch = buffers.batch(), meta = full_batch_on_meta({3, 4});
  for (const auto part : {&TokenBatch::tokens, &TokenBatch::positions, &TokenBatch::token_types,
                          &TokenBatch::padded_rows, &TokenBatch::documents,
                          &TokenBatch::target_rows, &TokenBatch::targets, &TokenBatch::labels}) {
    EXPECT_EQ((batch.*part).shape(), (meta.*part).shape());
    EXPECT_EQ((meta.*part).dtype(), DType::i32);
    EXPECT_TRUE((meta.*part).device().is_meta());
  }
  EXPECT_TRUE(names_all(error_of([&] { buffers.append({}, 5, "data", 9); }),
                        {"data", "sample 9", "3 rows"}));
  EXPECT_THROW(buffers.append_empty(), Error);
}

// The memory plan counts a rank's share of a step, and not only a micro-batch.
TEST(BatchBuffers, RejectsMoreTokensThanAnInt32) {
  for (const BatchShape& shape :
       {BatchShape{100'000'002, 32},
        BatchShape{.sequences = 100'000'002, .seq_length = 2, .source_length = 32}}) {
    EXPECT_TRUE(names_all(error_of([&] { full_batch_on_meta(shape); }),
                          {"a rank would hold 100000002 sequences of 32 tokens", "2147483647",
                           "a smaller batch.global"}));
  }
}

TEST(BatchBuffers, RejectsInvalidSamples) {
  BatchBuffers buffers({2, 3});
  const auto message = [&](const Sample& sample) {
    return error_of([&] { buffers.append(sample, 10, "data", 17); });
  };
  EXPECT_TRUE(names_all(message({{1, 2, 3, 4}, {}, {1, 2, 3, 4}, {4}, {}}),
                        {"data: sample 17", "4 tokens", "seq_length is 3"}));
  EXPECT_TRUE(names_all(message({{1, 2}, {}, {1}, {2}, {}}), {"1 targets for 2 tokens"}));
  EXPECT_TRUE(names_all(message({{1, 2}, {0}, {1, 1}, {2}, {}}), {"1 token types for 2"}));
  EXPECT_TRUE(names_all(message({{1, 2}, {}, {1, 1}, {2}, {1, 1}}), {"2 labels for 1 documents"}));
  EXPECT_TRUE(names_all(message({{1, 2}, {}, {1, 1}, {1}, {}}), {"1 tokens together", "has 2"}));
  EXPECT_TRUE(names_all(message({{1, 2}, {}, {1, 1}, {2, 0}, {}}), {"0 tokens", "at least 1"}));
  EXPECT_TRUE(names_all(message({{1, 10}, {}, {1, 1}, {2}, {}}), {"token 1 is 10", "0 to 9"}));
  EXPECT_TRUE(names_all(message({{-1, 1}, {}, {1, 1}, {2}, {}}), {"token 0 is -1"}));
  EXPECT_TRUE(names_all(message({{1, 1}, {}, {1, -2}, {2}, {}}), {"target 1 is -2"}));
  EXPECT_TRUE(names_all(message({{1, 1}, {0, -1}, {1, 1}, {2}, {}}), {"token type 1 is -1"}));
  EXPECT_TRUE(names_all(message({{1, 1}, {}, {1, 1}, {2}, {-5}}), {"label 0 is -5"}));
  EXPECT_EQ(buffers.batch().num_tokens(), 0);
  EXPECT_THROW(BatchBuffers({0, 4}), Error);
  EXPECT_THROW(BatchBuffers({1 << 16, 1 << 16}), Error);
  EXPECT_THROW(full_batch_on_meta({1 << 16, 1 << 16}), Error);
}

TEST(BatchBuffers, ReportsCommonDocumentLength) {
  BatchBuffers buffers({3, kSeqLength});
  const auto append = [&](std::vector<int32_t> lengths) {
    Sample sample;
    sample.document_lengths = lengths;
    sample.tokens.assign(std::accumulate(lengths.begin(), lengths.end(), size_t{0}), 1);
    sample.targets = sample.tokens;
    buffers.append(sample, kVocabSize, "made up", 0);
    return buffers.batch().document_length;
  };
  EXPECT_EQ(buffers.batch().document_length, 0);
  EXPECT_EQ(append({3, 3}), 3);
  EXPECT_EQ(append({3}), 3);
  EXPECT_EQ(append({3, 2}), 0);
  buffers.clear();
  EXPECT_EQ(buffers.batch().document_length, 0);
  EXPECT_EQ(append({2, 3}), 0);
  EXPECT_EQ(append({3}), 0);
  buffers.clear();
  EXPECT_EQ(append({6}), 6);
  buffers.append_empty();
  EXPECT_EQ(append({6}), 6) << "a row without tokens has no document";
}

TEST(BatchBuffersOfPrefix, LeaveOutTargetsThatTheirTokenSees) {
  BatchShape shape{2, 8};
  shape.prefix = 3;
  BatchBuffers buffers(shape);
  // The last token of a prefix, at position 2, is the first that predicts.
  buffers.append({{1, 2, 3, 4, 5, 6}, {}, {2, 3, 4, 5, 6, 7}, {4, 2}, {}}, 10, "data", 0);
  buffers.append({{1, 2, 3, 4}, {}, {2, 3, kIgnoreTarget, 5}, {4}, {}}, 10, "data", 1);
  const TokenBatch batch = buffers.batch();
  EXPECT_EQ(to_row(batch.target_rows), (Row{2, 3, 9}));
  EXPECT_EQ(to_row(batch.targets), (Row{4, 5, 5}));
}

TEST(BatchBuffersOfHiddenTargets, MarkTokensWithTarget) {
  BatchShape shape{2, 4};
  shape.hides_targets = true;
  BatchBuffers buffers(shape);
  buffers.append({{1, 2, 3}, {}, {kIgnoreTarget, 7, kIgnoreTarget}, {3}, {}}, 10, "data", 0);
  buffers.append({{1, 2}, {}, {5, kIgnoreTarget}, {2}, {}}, 10, "data", 1);
  const std::span<uint8_t> hidden = buffers.batch().hidden.span<uint8_t>();
  EXPECT_EQ(std::vector<uint8_t>(hidden.begin(), hidden.end()),
            (std::vector<uint8_t>{0, 1, 0, 1, 0}));
  EXPECT_FALSE(BatchBuffers({2, 4}).batch().hidden.defined());
}

}  // namespace
}  // namespace tessera
