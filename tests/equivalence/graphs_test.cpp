#include <gtest/gtest.h>

#include <algorithm>

#include "core/cuda/workspace.h"
#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "models/output_rows.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/tensors.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;
using test::WholeRun;

constexpr int64_t kSteps = 4, kMicroBatches = 4;

/// Launches of a data rank with this many micro-batches per step: the first step runs a first and
/// a later micro-batch without graphs.
constexpr int64_t launches_with(int64_t micro_batches) {
  return kSteps * micro_batches - std::min<int64_t>(micro_batches, 2);
}

constexpr int32_t kSomeToken = 20;

/// Tests of CUDA graphs of micro-steps.
class Graphs : public testing::Test {
 protected:
  Graphs() { test::write_small_data(folder_); }
  void SetUp() override {
    if (!test::on_gpu()) GTEST_SKIP() << "CUDA graphs need a GPU";
  }

  RunConfig config(SmallKind kind = SmallKind::gpt) const {
    return test::small_run(folder_, "run", kind);
  }

  /// Expects `launches` graph launches and the bits of a run without graphs. Returns the notes.
  static std::string expect_launches(int64_t launches, RunConfig run, Layout layout = {1, 1}) {
    const WholeRun with = test::train_whole(run, {layout, kSteps});
    EXPECT_EQ(with.graph_launches, launches);
    run.train.cuda_graph = CudaGraph::off;
    const WholeRun without = test::train_whole(run, {layout, kSteps});
    EXPECT_EQ(without.graph_launches, 0);
    test::expect_same_bits(with.first_gradients, without.first_gradients, "gradients");
    test::expect_same_bits(with.weights, without.weights, "weights");
    std::string notes;
    for (size_t i = 0; i < with.steps.size(); ++i) {
      EXPECT_EQ(with.steps[i].loss(), without.steps[i].loss());
      EXPECT_EQ(without.steps[i].note, "");
      notes += with.steps[i].note;
    }
    return notes;
  }

  test::TestFolder folder_;
};

TEST_F(Graphs, ReplayIsBitExact) {
  EXPECT_EQ(expect_launches(launches_with(kMicroBatches), config()), "");
}

TEST_F(Graphs, CaptureRecomputation) {
  RunConfig again = config();
  again.run.precision = DType::bf16;
  again.train.recompute = Recompute::block;
  EXPECT_EQ(expect_launches(launches_with(kMicroBatches), again), "");
}

TEST_F(Graphs, CaptureBlockThatComputesOnlyClassTokens) {
  const RunConfig images = config(SmallKind::images);
  EXPECT_TRUE(read_by_heads(images.model).first_tokens);
  EXPECT_EQ(expect_launches(launches_with(kMicroBatches), images), "");
}

TEST_F(Graphs, DropDifferentElementsInEachMicroStep) {
  const RunConfig dropout = config(SmallKind::gpt_blend);
  EXPECT_GT(dropout.model.dropout * dropout.model.attention_dropout, 0.0);
  EXPECT_EQ(expect_launches(launches_with(kMicroBatches), dropout), "");
}

// The first micro-batch of a step overwrites the gradients of trained parameters alone.
TEST_F(Graphs, CaptureFirstMicroBatchWithFrozenParameters) {
  RunConfig frozen = config();
  frozen.optimizer.frozen = {"embedding.word", "blocks.0.attention*"};
  for (const RunConfig& run : {frozen, config(SmallKind::adapters)}) {
    EXPECT_EQ(expect_launches(launches_with(kMicroBatches), run), "");
  }
}

// By cuDNN, where it has plans.
TEST_F(Graphs, DropDifferentWeightsByCudnn) {
  RunConfig dropout = config(SmallKind::gpt_blend);
  dropout.run.precision = DType::bf16;
  dropout.train.cudnn_dropout = true;
  EXPECT_EQ(expect_launches(launches_with(kMicroBatches), dropout), "");
}

// A data rank has two micro-batches or one. The last one overlaps with gradient reduction.
TEST_F(Graphs, SplitAtGradientReductions) {
  for (const int data_ranks : {2, 4}) {
    for (const int64_t zero : {0, 1, 3}) {
      RunConfig run = config(zero == 0 ? SmallKind::gpt : SmallKind::gpt_blend);
      run.parallel.zero = zero;
      if (zero == 1 && data_ranks == 2) run.parallel.grad_reduce_dtype = DType::bf16;
      EXPECT_EQ(expect_launches(launches_with(kMicroBatches / data_ranks), run, {1, data_ranks}),
                "");
    }
  }
}

// Documents of 12 tokens split rows of 16 in three ways: 12 + 4, 8 + 8 and 4 + 12. Two rows then
// have 28, 29 or 30 targets, and 28 also occurs with documents of equal length: four shapes. The
// loss is divided by the number of targets in a step, which differs from step to step. Seven kinds
// of micro-batches occur, of a shape and first in a step or not, and run once without a graph.
TEST_F(Graphs, AcceptAnyLossScale) {
  test::write_documents(folder_ / "even", std::vector<std::vector<int32_t>>(
                                              300, std::vector<int32_t>(12, kSomeToken)));
  RunConfig run = config();
  run.data.train = folder_ / "even";
  run.data.separate_documents = true;
  run.data.loss_across_documents = false;
  EXPECT_EQ(expect_launches(kSteps * kMicroBatches - 7, run), "");
}

/// Trains two steps, lets the workspace grow, and trains two more.
struct GrowingRun {
  explicit GrowingRun(const RunConfig& config) {
    test::run_device_ranks(1, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world);
      Trainer trainer(config, groups, open_training_data(config), test::test_device());
      trainer.initialize();
      for (const size_t workspace_bytes : {size_t{1} << 20, size_t{64} << 20}) {
        if constexpr (kHasCuda) cuda::workspace(workspace_bytes);
        for (int i = 0; i < 2; ++i) {
          trainer.step();
          losses.push_back(trainer.result().loss());
        }
      }
      launches = trainer.graph_launches();
    });
  }

  std::vector<double> losses;
  int64_t launches = 0;
};

TEST_F(Graphs, RecaptureAfterWorkspaceMoves) {
  RunConfig run = config();
  const GrowingRun with(run);
  run.train.cuda_graph = CudaGraph::off;
  EXPECT_EQ(with.losses, GrowingRun(run).losses);
  EXPECT_EQ(with.launches, launches_with(kMicroBatches));
}

// Each micro-batch has other numbers of tokens and targets.
TEST_F(Graphs, RepeatPaddedSizes) {
  for (const SmallKind kind : {SmallKind::bert_pairs, SmallKind::classifier}) {
    RunConfig run = config(kind);
    run.batch.global = run.batch.micro = 64;
    constexpr int64_t kManySteps = 20;
    const WholeRun with = test::train_whole(run, {{1, 1}, kManySteps});
    EXPECT_GT(with.graph_launches, kind == SmallKind::classifier ? kManySteps / 2 : 0);
    run.train.cuda_graph = CudaGraph::off;
    const WholeRun without = test::train_whole(run, {{1, 1}, kManySteps});
    test::expect_same_bits(with.weights, without.weights, "weights");
    for (const StepResult& step : with.steps) EXPECT_EQ(step.note, "");
  }
}

// Batches this small get no padding, but some repeat by chance.
TEST_F(Graphs, DisabledWhenShapesVary) {
  RunConfig run = config(SmallKind::bert_pairs);
  run.batch.global = 24;
  const WholeRun with = test::train_whole(run, {{1, 1}, kSteps});
  std::string note;
  for (const StepResult& step : with.steps) note += step.note;
  EXPECT_EQ(note,
            "no CUDA graphs from here on, because micro-batches had 17 different shapes or numbers "
            "of targets, and few repeat");
  run.train.cuda_graph = CudaGraph::off;
  const WholeRun without = test::train_whole(run, {{1, 1}, kSteps});
  EXPECT_LT(with.graph_launches, 17);
  test::expect_same_bits(with.weights, without.weights, "weights");
}

TEST_F(Graphs, NotUsedWithStagedTensorRanks) {
  if (test::on_nccl()) GTEST_SKIP() << "tensor ranks use NCCL";
  EXPECT_EQ(expect_launches(0, config(), {2, 1}), "");
}

class GraphsOfTensorRanks : public Graphs, public testing::WithParamInterface<Layout> {
 protected:
  void SetUp() override {
    if (!test::on_nccl()) GTEST_SKIP() << "this needs NCCL: set TESSERA_TEST_BACKEND=nccl";
  }
  static int64_t launches() { return launches_with(kMicroBatches / GetParam().data); }
};

TEST_P(GraphsOfTensorRanks, ReplayIsBitExact) {
  EXPECT_EQ(expect_launches(launches(), config(SmallKind::gpt_blend), GetParam()), "");
}

TEST_P(GraphsOfTensorRanks, ReplayIsBitExactWithSequenceParallelism) {
  RunConfig run = config(SmallKind::gpt_blend);
  run.parallel.sequence = true;
  EXPECT_EQ(expect_launches(launches(), run, GetParam()), "");
}

TEST_P(GraphsOfTensorRanks, ReplayIsBitExactInBf16WithZero) {
  RunConfig run = config(SmallKind::gpt_blend);
  run.run.precision = DType::bf16;
  run.parallel.sequence = true;
  run.parallel.zero = 3;
  EXPECT_EQ(expect_launches(launches(), run, GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(All, GraphsOfTensorRanks,
                         testing::Values(Layout{2, 1}, Layout{2, 2}, Layout{4, 1}),
                         [](const auto& instance) {
                           return fmt::format("tensor{}_data{}", instance.param.tensor,
                                              instance.param.data);
                         });

}  // namespace
}  // namespace tessera
