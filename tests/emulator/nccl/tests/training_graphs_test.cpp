// When tensor ranks train without CUDA graphs, on all ranks.

#include <gmock/gmock.h>

#include "core/cuda/workspace.h"
#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "tests/emulator/cublaslt/cublaslt.h"
#include "tests/emulator/tests/test_launch.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

class NcclGraphs : public testing::Test {
 protected:
  NcclGraphs() { test::write_small_data(folder_); }
  void SetUp() override {
    if (!test::on_nccl()) GTEST_SKIP() << "this needs NCCL: set TESSERA_TEST_BACKEND=nccl";
  }
  RunConfig config() const { return test::small_run(folder_, "run"); }

  test::TestFolder folder_;
};

/// Trains two steps on `ranks` ranks, two of which are tensor ranks. Rank 1 may be unable to record
/// the second step's first micro-batch, for which its scratch memory would have to grow.
struct ShortRun {
  ShortRun(const RunConfig& base, int ranks, bool can_record) {
    RunConfig config = base;
    config.parallel.tensor = 2;
    test::run_nccl_ranks(ranks, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, {.tensor = 2});
      Trainer trainer(config, groups, open_training_data(config), test::test_device());
      trainer.initialize();
      for (int i = 0; i < 2; ++i) {
        if (!can_record && i == 1 && world.rank() == 1) cuda::release_workspace();
        trainer.step();
        const StepResult result = trainer.result();
        if (world.rank() > 0) continue;
        losses.push_back(result.loss());
        grad_norm = result.grad_norm;
        note += result.note;
      }
    });
  }

  std::vector<double> losses;
  double grad_norm = 0.0;  ///< of the last step
  std::string note;
};

// The communicators chain their collectives instead. With streams that work as late as possible,
// collectives in another order on each rank would deadlock.
TEST_F(NcclGraphs, NotUsedWithNcclThatDoesNotOrderLaunches) {
  const cuda::Environment version("TESSERA_EMULATOR_NCCL_VERSION", "22500"),
      lazy("TESSERA_EMULATOR_LAZY", "1");
  const test::RunPlan plan{{2, 2}, 2};
  const test::WholeRun old = test::train_whole(config(), plan);
  EXPECT_EQ(old.graph_launches, 0);
  // Nor is one recorded, which would fail because of the chain.
  EXPECT_EQ(ShortRun(config(), 4, /*can_record=*/true).note, "");
  const cuda::Environment newer("TESSERA_EMULATOR_NCCL_VERSION", "22600");
  const test::WholeRun with = test::train_whole(config(), plan);
  EXPECT_GT(with.graph_launches, 0);
  test::expect_same_bits(old.weights, with.weights, "weights");
}

TEST_F(NcclGraphs, EndOnAllRanksIfOneCannotRecord) {
  RunConfig run = config();
  const ShortRun with(run, 2, /*can_record=*/false);
  EXPECT_THAT(with.note,
              AllOf(HasSubstr("no CUDA graphs from here on, because"),
                    HasSubstr("scratch memory has to grow while a CUDA graph is recorded")));
  run.train.cuda_graph = CudaGraph::off;
  const ShortRun without(run, 2, /*can_record=*/false);
  EXPECT_EQ(without.note, "");
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.grad_norm, without.grad_norm);
}

// The products of a step's last micro-batch.
TEST_F(NcclGraphs, ProductsLeaveRoomForReductions) {
  const test::RunPlan plan{{1, 2}, 3};
  const auto count = [] { return emulator::cublaslt::products_on_some_multiprocessors(); };
  RunConfig run = config();
  const int64_t before = count();
  const test::WholeRun without = test::train_whole(run, plan);
  EXPECT_EQ(count(), before);
  const cuda::Environment blocks("NCCL_MAX_CTAS", "1");
  const test::WholeRun with = test::train_whole(run, plan);
  const int64_t in_graphs = count() - before;
  EXPECT_GT(in_graphs, 0);
  run.train.cuda_graph = CudaGraph::off;
  test::train_whole(run, plan);
  EXPECT_GT(count() - before, in_graphs);
  test::expect_same_bits(with.weights, without.weights, "weights");
}

}  // namespace
}  // namespace tessera
