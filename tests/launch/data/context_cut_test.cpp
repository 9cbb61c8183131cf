#include "launch/data/loading/context_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/ops/cross_entropy.h"
#include "launch/data/loading/batch_buffers.h"

namespace tessera {
namespace {

using Ranges = std::vector<Range>;

AttentionMask causal(int64_t window = 0, int64_t prefix = 0) {
  AttentionMask mask;
  mask.causal = true;
  mask.window = window;
  mask.prefix = prefix;
  return mask;
}

/// The keys that all rows of documents of these lengths see.
std::vector<double> work_of(const std::vector<int64_t>& lengths, const CutMasks& masks) {
  std::vector<double> work;
  for (const int64_t length : lengths) {
    for (int64_t t = 0; t < length; ++t) work.push_back(masks.visible_keys(t, length));
  }
  return work;
}

/// Expects that each row is on one rank and that ranks have equally many; returns the most work of
/// a rank in relation to the mean.
double expect_cut(const std::vector<Ranges>& cut, std::span<const double> work, int ranks) {
  EXPECT_EQ(std::ssize(cut), ranks);
  std::vector<int> holders(work.size());
  double most = 0.0;
  for (size_t r = 0; r < cut.size(); ++r) {
    int64_t rows = 0, last = -1;
    double sum = 0.0;
    for (const Range& range : cut[r]) {
      EXPECT_LT(last, range.begin) << "ranges ascend and do not touch";
      last = range.end;
      rows += range.size();
      for (int64_t row = range.begin; row < range.end; ++row) {
        ++holders[static_cast<size_t>(row)];
        sum += work[static_cast<size_t>(row)];
      }
    }
    const auto all = std::ssize(work);
    EXPECT_EQ(rows, all / ranks + (static_cast<int64_t>(r) < all % ranks ? 1 : 0)) << "rank " << r;
    most = std::max(most, sum);
  }
  EXPECT_TRUE(std::ranges::all_of(holders, [](int count) { return count == 1; }));
  const double mean = std::accumulate(work.begin(), work.end(), 0.0) / ranks;
  return mean == 0.0 ? 1.0 : most / mean;
}

TEST(ContextCut, OneCausalDocumentIsCutInZigZag) {
  const CutMasks masks{causal(), causal()};
  EXPECT_EQ(cut_rows(work_of({800}, masks), 4), (std::vector<Ranges>{{{0, 100}, {700, 800}},
                                                                     {{100, 200}, {600, 700}},
                                                                     {{200, 300}, {500, 600}},
                                                                     {{300, 500}}}));
}

TEST(ContextCut, FewRows) {
  EXPECT_EQ(cut_rows({}, 2), (std::vector<Ranges>{{}, {}}));
  EXPECT_EQ(cut_rows(std::vector{1.0}, 2), (std::vector<Ranges>{{{0, 1}}, {}}));
  EXPECT_EQ(cut_rows(std::vector{1.0, 2.0, 3.0}, 1), (std::vector<Ranges>{{{0, 3}}}));
}

// Documents, windows, prefixes and layers with and without a window.
TEST(ContextCut, RanksHaveEqualRowsAndWork) {
  std::mt19937 random(7);
  const auto below = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
  };
  for (int i = 0; i < 400; ++i) {
    const int ranks = static_cast<int>(2 + below(7));
    std::vector<int64_t> lengths;
    const int64_t count = 1 + below(20), longest = 1 + below(i % 3 == 0 ? 4000 : 300);
    for (int64_t d = 0; d < count; ++d) lengths.push_back(1 + below(longest));
    if (i % 5 == 0) lengths.push_back(5000);
    const CutMasks masks{i % 2 == 0 ? causal(1 + below(500)) : AttentionMask{},
                         i % 4 == 0 ? causal(0, below(200)) : causal(), 0.25 * (i % 5)};
    const std::vector<double> work = work_of(lengths, masks);
    SCOPED_TRACE(fmt::format("{} rows, {} ranks, batch {}", work.size(), ranks, i));
    const double most = expect_cut(cut_rows(work, ranks), work, ranks);
    if (std::ssize(work) >= 64 * ranks) {
      EXPECT_LE(most, 1.05);
    }
  }
}

/// A batch of two rows and what its two or three context ranks have of it.
class CutBatch : public testing::TestWithParam<int> {
 protected:
  CutBatch() {
    shape.context.masks = {causal(), causal()};
    shape.context.ranks = GetParam();
    for (int rank = 0; rank < GetParam(); ++rank) {
      shape.context.rank = rank;
      BatchBuffers& part = ranks.emplace_back(shape);
      for (int32_t row = 0; row < 2; ++row) append(part, row);
      part.finish();
    }
  }

  /// Documents of 5, 1 and 3 tokens, or of 4, 4 and 1; every other token has a target.
  static void append(BatchBuffers& buffers, int32_t row) {
    Sample& sample = buffers.scratch();
    sample.tokens.clear();
    sample.targets.clear();
    for (int32_t t = 0; t < 9; ++t) {
      sample.tokens.push_back(10 * row + t);
      sample.targets.push_back(t % 2 == 0 ? 50 + 10 * row + t : kIgnoreTarget);
    }
    sample.document_lengths = row == 0 ? std::vector{5, 1, 3} : std::vector{4, 4, 1};
    sample.labels = {row, kIgnoreTarget, row + 2};
    buffers.append(sample, 100, "data", 0);
  }

  BatchShape shape{2, 9};
  std::vector<BatchBuffers> ranks;
};

TEST_P(CutBatch, RanksHaveThePartsOfTheBatch) {
  const TokenBatch whole = ranks[0].whole();
  const auto at = [](const Tensor& tensor, int64_t i) { return tensor.data<int32_t>()[i]; };
  std::vector<int32_t> counted, targets;
  for (BatchBuffers& buffers : ranks) {
    const TokenBatch part = buffers.batch();
    const ContextCut& cut = part.cut;
    SCOPED_TRACE(fmt::format("rank {}", cut.rank));
    EXPECT_EQ(cut.rows, whole.num_tokens());
    std::vector<int64_t> own;  // rows of the batch
    for (int64_t n = 0; n < cut.rows; ++n) {
      EXPECT_EQ(at(cut.padded_rows, n), at(whole.padded_rows, n));
      if (at(cut.gathered, n) / cut.share() != cut.rank) continue;
      EXPECT_EQ(at(cut.gathered, n) % cut.share(), std::ssize(own)) << "own rows are in order";
      own.push_back(n);
    }
    ASSERT_EQ(std::ssize(own), part.num_tokens());
    for (int64_t n = 0; n < part.num_tokens(); ++n) {
      const int64_t row = own[static_cast<size_t>(n)];
      EXPECT_EQ(at(part.tokens, n), at(whole.tokens, row));
      EXPECT_EQ(at(part.positions, n), at(whole.positions, row));
      EXPECT_EQ(at(part.padded_rows, n), at(whole.padded_rows, row));
    }
    for (int64_t d = 0; d < whole.documents.numel(); ++d) {
      EXPECT_EQ(at(cut.documents, d), at(whole.documents, d));
      EXPECT_EQ(at(cut.own_documents, d),
                std::ranges::lower_bound(own, at(whole.documents, d)) - own.begin());
    }
    for (int64_t i = 0; i < part.num_documents(); ++i) {
      const int32_t document = at(cut.counted, i);
      counted.push_back(document);
      EXPECT_EQ(own[static_cast<size_t>(at(part.documents, i))], at(whole.documents, document));
      EXPECT_EQ(at(part.labels, i), at(whole.labels, document));
    }
    EXPECT_EQ(at(part.documents, part.num_documents()), part.num_tokens());
    for (int64_t i = 0; i < part.num_targets(); ++i) {
      EXPECT_EQ(at(part.targets, i), 50 + at(part.tokens, at(part.target_rows, i)));
      targets.push_back(at(part.targets, i));
    }
  }
  std::ranges::sort(counted);
  EXPECT_EQ(counted, (std::vector{0, 1, 2, 3, 4, 5}));
  const auto all = whole.targets.span<int32_t>();
  std::ranges::sort(targets);
  EXPECT_TRUE(std::ranges::equal(targets, all));
}

// Of 2000 rows in three documents, layers with a window exchange the rows near the borders of runs.
TEST(ContextCut, HaloHasTheRowsThatOtherRanksSee) {
  for (const AttentionMask& local : {causal(30), causal(20, 50)}) {
    BatchShape shape{1, 2000};
    shape.context = {3, 0, {local, causal(), 0.5}};
    Sample sample;
    sample.tokens.resize(2000);
    sample.targets.assign(2000, kIgnoreTarget);
    sample.document_lengths = {1200, 300, 500};
    std::vector<BatchBuffers> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      shape.context.rank = rank;
      ranks.emplace_back(shape).append(sample, 100, "data", 0);
      ranks.back().finish();
    }
    const auto cut_of = [&](int rank) { return ranks[static_cast<size_t>(rank)].batch().cut; };
    for (int to = 0; to < 3; ++to) {
      const ContextCut cut = cut_of(to);
      const ContextCut::Halo& halo = cut.halo;
      ASSERT_TRUE(halo.defined());
      const auto own = halo.own.span<int32_t>(), received = halo.received.span<int32_t>();
      EXPECT_LT(received.size(), 500U);
      size_t place = 0;
      for (int from = 0; from < 3; ++from) {
        const ContextCut::Halo sender = cut_of(from).halo;
        int64_t first = 0;
        for (int r = 0; r < to; ++r) first += sender.sends[static_cast<size_t>(r)];
        const int64_t count = halo.receives[static_cast<size_t>(from)];
        EXPECT_EQ(sender.sends[static_cast<size_t>(to)], count);
        for (int64_t i = first; i < first + count; ++i) {
          const int32_t sent = sender.sent.span<int32_t>()[static_cast<size_t>(i)];
          EXPECT_EQ(sender.own.span<int32_t>()[static_cast<size_t>(sent)], received[place++]);
        }
      }
      EXPECT_EQ(place, received.size());
      std::vector<bool> here(2000);
      for (const auto& rows : {own, received}) {
        for (const int32_t row : rows) here[static_cast<size_t>(row)] = true;
      }
      const auto ends = cut.documents.span<int32_t>();
      for (const int32_t row : own) {
        size_t d = 0;
        while (ends[d + 1] <= row) ++d;
        const int32_t t = row - ends[d];
        for (int32_t s = 0; s < ends[d + 1] - ends[d]; ++s) {
          const bool visible =
              s < std::max<int64_t>(t + 1, local.prefix) && std::abs(t - s) < local.window;
          if (visible) {
            EXPECT_TRUE(here[static_cast<size_t>(ends[d] + s)]) << row << " sees " << s;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CutBatch, testing::Values(2, 3, 5));

}  // namespace
}  // namespace tessera
