#include "parallel/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/ops/elementwise.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

ParallelGroups tensor_ranks(Communicator& world) {
  return make_parallel_groups(world, {.tensor = world.size()});
}

double sum_squares(const GradientNorm& norm) {
  const OwnedTensor squares({1}, DType::f64);
  fill(squares.tensor, 5.0);  // the old value is overwritten
  norm.sum_squares(squares.tensor);
  return squares.tensor.span<double>()[0];
}

/// Declares row shards with padding, column shards and replicas in turn; every gradient is 2.
void declare_and_fill(ParameterStore& store, const Communicator& tp,
                      const OptimizerSharding& sharding = {}) {
  const int64_t rows = 8 / tp.size();
  const Range local = {tp.rank() * rows, (tp.rank() + 1) * rows};
  for (int i = 0; i < 3; ++i) {
    store.declare({fmt::format("split{}", i), {8, 2}, {0, local}, {}, false, rows + 1});
    store.declare({fmt::format("columns{}", i), {3, 8}, {1, local}});
    store.declare({fmt::format("common{}", i), {3}});
  }
  store.allocate(kCpu, DType::f32, StoreFor::training, sharding);
  for (Parameter& parameter : store.parameters()) fill(parameter.real_part(parameter.grad()), 2.0);
}

constexpr double kSquares = 4.0 * 3 * (16 + 24 + 3);

TEST(GradientNorm, CountsEveryElementOnce) {
  for (const int ranks : {1, 2, 4, 8}) {
    run_thread_ranks(ranks, [](Communicator& tp) {
      ParameterStore store;
      declare_and_fill(store, tp);
      const ParallelGroups groups = tensor_ranks(tp);
      const GradientNorm norm(store, groups);
      EXPECT_EQ(sum_squares(norm), kSquares);
      EXPECT_EQ(sum_squares(norm), kSquares);
      fill(store.flat_grads(), 0.0);
      EXPECT_EQ(sum_squares(norm), 0.0);
    });
  }
}

TEST(GradientNorm, OwnersCountOnlyTheirShards) {
  run_thread_ranks(8, [](Communicator& world) {
    for (const int tensor : {1, 2, 4, 8}) {
      const ParallelGroups groups =
          make_parallel_groups(world, {.tensor = tensor, .shards = GridShape::kAllReplicas});
      for (const int64_t bucket : {1, 60, 1000}) {
        ParameterStore store;
        declare_and_fill(store, *groups.tp, {groups.shards->size(), groups.shards->rank(), bucket});
        // Gradients outside the optimizer shard are not sums and may have any value.
        const OwnedTensor mine(Shape{store.flat_size()}, DType::f32);
        copy(store.flat_grads(), mine.tensor);
        fill(store.flat_grads(), NAN);
        for (const FlatBucket& place : store.layout().buckets()) {
          const Range& owned = place.shard;
          copy(mine.tensor.slice(owned.begin, owned.end),
               store.flat_grads().slice(owned.begin, owned.end));
        }
        EXPECT_EQ(sum_squares(GradientNorm(store, groups)), kSquares);
      }
    }
  });
}

TEST(GradientNorm, RefusesShardsOfOtherGroups) {
  const auto self = make_self_communicator();
  ParameterStore store;
  declare_and_fill(store, *self, {2, 0});
  EXPECT_THROW(GradientNorm(store, make_parallel_groups(*self)), Error);
}

TEST(GradientNorm, MergesAdjacentRanges) {
  run_thread_ranks(2, [](Communicator& tp) {
    ParameterStore store;
    declare_and_fill(store, tp);
    EXPECT_EQ(GradientNorm(store, tensor_ranks(tp)).num_ranges(), tp.rank() == 0 ? 1U : 3U);
  });
}

TEST(GradientNorm, CountsReplicasOnFirstRankOnly) {
  run_thread_ranks(3, [](Communicator& tp) {
    ParameterStore store;
    store.declare({"common", {5}});
    store.allocate(kCpu, DType::f32, StoreFor::training);
    fill(store.flat_grads(), 0.0);
    fill(store.parameters()[0].grad(), 1.0);
    const ParallelGroups groups = tensor_ranks(tp);
    const GradientNorm norm(store, groups);
    EXPECT_EQ(norm.num_ranges(), tp.rank() == 0 ? 1U : 0U);
    EXPECT_EQ(sum_squares(norm), 5.0);
  });
}

TEST(GradientNorm, NanOnOneRankReachesAllRanks) {
  run_thread_ranks(4, [](Communicator& tp) {
    ParameterStore store;
    declare_and_fill(store, tp);
    const ParallelGroups groups = tensor_ranks(tp);
    if (tp.rank() == 2) store.parameters()[4].grad().span<float>()[1] = NAN;
    EXPECT_TRUE(std::isnan(sum_squares(GradientNorm(store, groups))));
  });
}

}  // namespace
}  // namespace tessera
