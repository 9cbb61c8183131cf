#include "parallel/layers/tensor_regions.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/ops/elementwise.h"
#include "parallel/layers/column_parallel_linear.h"
#include "parallel/layers/row_parallel_linear.h"
#include "parallel/layers/vocab_parallel_embedding.h"
#include "parallel/partial_gradients.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/shards.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

constexpr int64_t kWidth = 12, kInner = 24, kVocab = 37;

/// Row counts: zero, fewer than ranks, divisible by the ranks, and not divisible.
constexpr int64_t kRows[] = {0, 1, 3, 4, 5, 8, 13};

/// The rows `local` of a matrix with `kWidth` columns.
std::vector<double> rows_of(const std::vector<double>& whole, Range local) {
  return {whole.begin() + local.begin * kWidth, whole.begin() + local.end * kWidth};
}

/// A rank's arena and context for `rows` rows sharded over the ranks.
struct Rank {
  Rank(const Communicator& tp, int64_t rows)
      : arena(test::test_device(), size_t{1} << 20), ctx{arena} {
    ctx.rows = SequenceShard{tp.size(), tp.rank()}.of(rows);
  }

  /// A copy of the rank's local rows of `whole`.
  test::TestTensor local_of(const Tensor& whole) const {
    return test::copy_of(ctx.rows.local_of(whole));
  }

  Arena arena;
  StepContext ctx;
};

TEST(TensorRegions, AllRowsGathersRowsOfAllRanks) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t rows : kRows) {
      for (const int ranks : {1, 2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{} rows, {} ranks", rows, ranks));
        const test::TestTensor whole = test::random_tensor({rows, kWidth}, dtype, 1);
        test::run_device_ranks(ranks, [&](Communicator& tp) {
          Rank rank(tp, rows);
          const test::TestTensor local = rank.local_of(whole.tensor);
          const int64_t count = local.tensor.dim(0);
          const Tensor all = all_rows(rank.ctx, local.tensor.view({1, count, kWidth}), tp);
          EXPECT_EQ(all.shape(), (Shape{1, rows, kWidth}));
          test::expect_same_bits(all.view({rows, kWidth}), whole.tensor, "all rows");
        });
      }
    }
  }
}

TEST(TensorRegions, RegionSumGivesEachRankItsRows) {
  for (const int64_t rows : kRows) {
    for (const int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} rows, {} ranks", rows, ranks));
      std::vector<double> sum(static_cast<size_t>(rows * kWidth));
      const auto part_of = [&](int rank) {
        return test::random_tensor({rows, kWidth}, DType::f32, 10 + static_cast<uint64_t>(rank));
      };
      for (int rank = 0; rank < ranks; ++rank) {
        const auto part = test::to_doubles(part_of(rank).tensor);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      test::run_device_ranks(ranks, [&](Communicator& tp) {
        Rank rank(tp, rows);
        const Range local = rank.ctx.rows.local();
        const test::TestTensor out({local.size(), kWidth}, DType::f32);
        RegionSum region(rank.ctx, out.tensor, tp);
        copy(part_of(tp.rank()).tensor, region.part());
        region.start()->wait();
        // Up to three roundings.
        test::expect_close(out.tensor, rows_of(sum, local), 4 * test::unit_roundoff(DType::f32),
                           "sum");
      });
    }
  }
}

TEST(TensorRegions, ChosenRowsMatchUnshardedOnEveryRank) {
  constexpr int64_t kCount = 9;
  const test::TestTensor chosen = test::from_ints(std::vector<int32_t>{8, 0, 3, 5}, {4});
  const test::TestTensor whole = test::random_tensor({kCount, kWidth}, DType::bf16, 1);
  const test::TestTensor gradient = test::random_tensor({4, kWidth}, DType::bf16, 2);
  const test::TestTensor before = test::random_tensor({kCount, kWidth}, DType::bf16, 3);
  const test::TestTensor expected({4, kWidth}, DType::bf16), dwhole = test::copy_of(before.tensor);
  Arena arena(test::test_device(), size_t{1} << 16);
  const auto self = make_self_communicator();
  copy(chosen_rows({arena}, whole.tensor, chosen.tensor, *self), expected.tensor);
  chosen_rows_backward({arena}, gradient.tensor, chosen.tensor, dwhole.tensor);
  test::expect_same_bits(expected.tensor.slice(1, 2), whole.tensor.slice(0, 1), "row 0");
  for (const int ranks : {2, 4}) {
    test::run_device_ranks(ranks, [&](Communicator& tp) {
      Rank rank(tp, kCount);
      const test::TestTensor local = rank.local_of(whole.tensor);
      // A rank adds zeros for rows that are not local: the same bits.
      test::expect_same_bits(chosen_rows(rank.ctx, local.tensor, chosen.tensor, tp),
                             expected.tensor, "chosen rows");
      const test::TestTensor dlocal = rank.local_of(before.tensor);
      chosen_rows_backward(rank.ctx, gradient.tensor, chosen.tensor, dlocal.tensor);
      test::expect_same_bits(dlocal.tensor, rank.ctx.rows.local_of(dwhole.tensor),
                             "their gradient");
    });
  }
}

/// A column-parallel layer followed by a row-parallel one.
struct Pair {
  Pair(ParameterStore& store, Communicator& tp)
      : up(store, {"up", kWidth, kInner}, tp), down(store, {"down", kInner, kWidth}, tp) {}

  ColumnParallelLinear up;
  RowParallelLinear down;
};

struct Results {
  std::vector<double> y, dx;
  std::map<std::string, std::vector<double>> gradients;  ///< global tensors, from a single rank
};

/// Runs forward and backward on a rank's local rows, then calls `look(y, dx, store)`.
template <typename Look>
void run_pair(Communicator& tp, int64_t rows, Look&& look) {
  ParameterStore store;
  Pair pair(store, tp);
  store.shard_rows();
  store.allocate(test::test_device(), DType::f32, StoreFor::training);
  store.initialize(5);
  Rank rank(tp, rows);
  const test::TestTensor x =
      rank.local_of(test::random_tensor({rows, kWidth}, DType::f32, 1).tensor);
  const test::TestTensor dy =
      rank.local_of(test::random_tensor({rows, kWidth}, DType::f32, 2).tensor);
  const test::TestTensor dx(x.tensor.shape(), DType::f32);
  const Tensor hidden = pair.up.forward(rank.ctx, x.tensor);  // (N, kInner / tp)
  EXPECT_EQ(hidden.dim(0), rows);
  const Tensor y = pair.down.forward(rank.ctx, hidden);
  const size_t kept = rank.arena.used();
  const test::TestTensor dhidden(hidden.shape(), DType::f32);
  pair.down.backward(rank.ctx, dy.tensor, dhidden.tensor);
  pair.up.backward(rank.ctx, dhidden.tensor, dx.tensor);
  EXPECT_EQ(rank.arena.used(), kept) << "the backward pass frees the rows it gathers";
  if (rank.ctx.rows.split()) PartialGradients(store, tp).sum(rank.arena);
  look(y, dx.tensor, store, rank.ctx.rows);
}

TEST(TensorRegions, LayerPairWithShardedRowsMatchesUnsharded) {
  for (const int64_t rows : kRows) {
    Results whole;
    test::run_device_ranks(1, [&](Communicator& tp) {
      run_pair(tp, rows, [&](const Tensor& y, const Tensor& dx, const ParameterStore& store, auto) {
        whole.y = test::to_doubles(y);
        whole.dx = test::to_doubles(dx);
        for (const Parameter& parameter : store.parameters()) {
          whole.gradients[parameter.name] = test::to_doubles(parameter.grad());
        }
      });
    });
    const double tolerance = 2 * test::sum_tolerance(DType::f32, kInner);  // two products in a row
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} rows, {} ranks", rows, ranks));
      test::run_device_ranks(ranks, [&](Communicator& tp) {
        run_pair(tp, rows,
                 [&](const Tensor& y, const Tensor& dx, const ParameterStore& store,
                     const SequenceShard& split) {
                   test::expect_close(y, rows_of(whole.y, split.local()), tolerance, "y");
                   test::expect_close(dx, rows_of(whole.dx, split.local()), tolerance, "dx");
                   for (const Parameter& parameter : store.parameters()) {
                     test::expect_close(
                         parameter.grad(),
                         test::shard_of(whole.gradients.at(parameter.name), parameter), tolerance,
                         parameter.name.c_str());
                   }
                 });
      });
    }
  }
}

TEST(TensorRegions, EmbeddingWithShardedRowsMatchesUnsharded) {
  for (const int64_t rows : kRows) {
    const test::TestTensor ids = test::random_ints({1, rows}, 0, kVocab, 4);
    const test::TestTensor dout = test::random_tensor({rows, kWidth}, DType::f32, 5);
    std::vector<double> expected, dtable;
    const auto run = [&](Communicator& tp, auto&& look) {
      ParameterStore store;
      VocabParallelEmbedding words(store, "words", kVocab, kWidth, 1.0f, tp);
      store.allocate(test::test_device(), DType::f32, StoreFor::training);
      store.initialize(6);
      Rank rank(tp, rows);
      const Tensor out = words.forward(rank.ctx, ids.tensor);
      const test::TestTensor gradient = rank.local_of(dout.tensor);
      words.backward(rank.ctx, gradient.tensor.view(out.shape()));
      look(out, words.table(), rank.ctx.rows);
    };
    test::run_device_ranks(1, [&](Communicator& tp) {
      run(tp, [&](const Tensor& out, const Parameter& table, auto) {
        expected = test::to_doubles(out);
        dtable = test::to_doubles(table.real_part(table.grad()));
      });
    });
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} rows, {} ranks", rows, ranks));
      test::run_device_ranks(ranks, [&](Communicator& tp) {
        run(tp, [&](const Tensor& out, const Parameter& table, const SequenceShard& split) {
          // One rank has the token, the others add zeros; gradients accumulate in the same order.
          test::expect_close(out, rows_of(expected, split.local()), 0.0, "words");
          test::expect_close(table.real_part(table.grad()), test::shard_of(dtable, table), 0.0,
                             "dtable");
        });
      });
    }
  }
}

// The arena size measured by a dry run of a full micro-batch must suffice for all others.
TEST(TensorRegions, FullBatchNeedsLargestArena) {
  constexpr int64_t kMost = 24;
  for (const int index : {0, 1, 2, 3}) {
    const auto self = make_self_communicator();
    size_t most = 0;
    for (int64_t rows = kMost; rows >= 0; --rows) {
      Arena arena(kMeta);
      StepContext ctx{arena};
      ctx.rows = SequenceShard{4, index}.of(rows);
      const Tensor local(nullptr, {1, ctx.rows.local().size(), kWidth}, DType::bf16, kMeta);
      const Tensor padded(nullptr, {4 * ctx.rows.chunk(), kWidth}, DType::bf16, kMeta);
      RegionSum sum(ctx, local, *self);
      EXPECT_EQ(sum.part().shape(), (Shape{1, rows, kWidth}));
      if (rows == kMost) most = arena.peak();
      EXPECT_LE(arena.peak(), most) << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace tessera
