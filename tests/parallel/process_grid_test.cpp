#include "parallel/process_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/meta_communicator.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ProcessGrid, TensorIsInnermostAndPipelineOutermost) {
  const ProcessGrid grid(24, {.pipeline = 2, .context = 2, .tensor = 3});
  EXPECT_EQ(grid.data(), 2);
  EXPECT_EQ(grid.index_of(23, Axis::pipeline), 1);
  EXPECT_THAT(grid.group_of(4, {Axis::tensor}), ElementsAre(3, 4, 5));
  EXPECT_THAT(grid.group_of(4, {Axis::context}), ElementsAre(1, 4));
  EXPECT_THAT(grid.group_of(4, {Axis::data}), ElementsAre(4, 10));
  EXPECT_THAT(grid.group_of(4, {Axis::pipeline}), ElementsAre(4, 16));
  EXPECT_THAT(grid.group_of(4, kReplicaAxes), ElementsAre(1, 4, 7, 10));
  EXPECT_THAT(grid.group_of(4, {}), ElementsAre(4));
}

std::vector<GridShape> shapes_of(int world_size) {
  std::vector<GridShape> shapes;
  for (int pipeline = 1; pipeline <= world_size; ++pipeline) {
    for (int context = 1; context <= world_size; ++context) {
      for (int tensor = 1; tensor <= world_size; ++tensor) {
        const GridShape shape{.pipeline = pipeline, .context = context, .tensor = tensor};
        if (!grid_problem(world_size, shape)) shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

TEST(ProcessGrid, EveryRankHasOneGroupPerAxis) {
  for (int world_size = 1; world_size <= 24; ++world_size) {
    for (const GridShape& shape : shapes_of(world_size)) {
      const ProcessGrid grid(world_size, shape);
      ASSERT_EQ(grid.world_size(), world_size);
      for (const AxisSet axes : {AxisSet{Axis::tensor}, AxisSet{Axis::data}, kReplicaAxes}) {
        std::multiset<int> members;
        for (const std::vector<int>& group : grid.groups(axes)) {
          EXPECT_EQ(group.size(), static_cast<size_t>(grid.size(axes)));
          // A group's label has its first rank and the distance of neighbors alone.
          for (size_t i = 2; i < group.size(); ++i) {
            EXPECT_EQ(group[i] - group[i - 1], group[1] - group[0]);
          }
          members.insert(group.begin(), group.end());
          for (const int rank : group) EXPECT_EQ(grid.group_of(rank, axes), group);
        }
        for (int rank = 0; rank < world_size; ++rank) EXPECT_EQ(members.count(rank), 1U);
      }
    }
  }
}

std::string error_of_grid(int world_size, const GridShape& shape) {
  return test::error_of([&] { ProcessGrid(world_size, shape); });
}

TEST(ProcessGrid, ErrorListsValidTensorSizes) {
  EXPECT_EQ(
      error_of_grid(4, {.tensor = 3}),
      "parallel.tensor is 3, but the run has 4 ranks: each replica of the model takes 3 ranks, so "
      "choose a divisor of 4 (1, 2, 4), or start a multiple of 3 ranks");
  EXPECT_THAT(error_of_grid(1, {.tensor = 2}), HasSubstr("but the run has 1 rank:"));
  EXPECT_THAT(error_of_grid(4, {.tensor = 8}), HasSubstr("choose a divisor of 4 (1, 2, 4)"));
  EXPECT_THAT(error_of_grid(4, {.tensor = 0}), HasSubstr("parallel.tensor is 0"));
  EXPECT_THAT(error_of_grid(4, {.tensor = -2}), HasSubstr("parallel.tensor is -2"));
  EXPECT_THAT(error_of_grid(0, {}), HasSubstr("at least one rank"));
  EXPECT_THAT(error_of_grid(8, {.context = 3, .tensor = 2}), HasSubstr("1 × 3 × 2"));
  EXPECT_THAT(error_of_grid(8, {.context = INT64_MAX, .tensor = INT64_MAX}), HasSubstr("8 ranks"));
}

TEST(ProcessGrid, RefusesRanksOutsideGrid) {
  const ProcessGrid grid(4, {.tensor = 2});
  EXPECT_THROW(grid.index_of(4, Axis::data), Error);
  EXPECT_THROW(grid.group_of(-1, {Axis::tensor}), Error);
}

TEST(ProcessGrid, PrintsItsGroups) {
  EXPECT_EQ(to_text(ProcessGrid(4, {.tensor = 2})),
            "4 ranks = 2 data × 2 tensor\n"
            "  tensor groups: {0, 1} {2, 3}\n"
            "  data groups:   {0, 2} {1, 3}\n");
  EXPECT_EQ(to_text(ProcessGrid(1, {})),
            "1 rank = 1 data × 1 tensor\n"
            "  tensor groups: {0}\n"
            "  data groups:   {0}\n");
  const std::string many = to_text(ProcessGrid(64, {.tensor = 2}));
  EXPECT_THAT(many, HasSubstr("{12, 13} ... {62, 63}\n"));
  EXPECT_THAT(many, HasSubstr("{0, 2, 4, 6, 8, 10, 12, ..., 62} {1, 3"));
  EXPECT_EQ(to_string(ProcessGrid(8, {.context = 2, .tensor = 2})),
            "2 data × 2 context × 2 tensor");
}

TEST(ParallelGroups, AreThoseOfTheGridAndCountEachElementOnce) {
  for (const bool shards : {false, true}) {
    const GridShape shape{.pipeline = 1, .context = 2, .tensor = 2, .shards = shards ? 0 : 1};
    run_thread_ranks(8, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, shape);
      const MetaGroups meta(8, shape, world.rank());
      const std::pair<const Communicator*, AxisSet> all[] = {
          {groups.tp.get(), {Axis::tensor}},
          {groups.cp.get(), {Axis::context}},
          {groups.dp.get(), {Axis::data}},
          {groups.pp.get(), {Axis::pipeline}},
          {groups.replicas.get(), kReplicaAxes},
          {groups.shards.get(), shards ? kReplicaAxes : AxisSet()},
          {groups.copies.get(), shards ? AxisSet() : kReplicaAxes}};
      for (const auto& [group, axes] : all) {
        const std::vector<int> ranks = groups.grid.group_of(world.rank(), axes);
        ASSERT_EQ(group->size(), std::ssize(ranks));
        EXPECT_EQ(ranks[static_cast<size_t>(group->rank())], world.rank());
      }
      EXPECT_EQ(meta.groups().all().size(), groups.all().size());
      EXPECT_EQ(groups.all().size(), 6U);  // world, tp, dp, cp, replicas and one of a single rank
      for (const bool sharded : {false, true}) {
        ParameterStore store;
        const Shard half{0, {groups.tp->rank() * 4, groups.tp->rank() * 4 + 4}};
        store.declare({"weight", {8}, sharded ? half : Shard{}});
        store.allocate(kCpu, DType::f32, StoreFor::training,
                       {groups.shards->size(), groups.shards->rank()});
        const Parameter& weight = store.parameters()[0];
        int64_t counted = groups.counts_here(weight) ? store.owned_elements(weight).size() : 0;
        world.all_reduce(Tensor(&counted, {1}, DType::i64, kCpu));
        EXPECT_EQ(counted, 8);
      }
    });
  }
}

}  // namespace
}  // namespace tessera
