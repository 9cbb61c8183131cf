#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>

#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"

namespace tessera {
namespace {

using test::SmallKind;

/// A run on one layout: losses and norms by step, and the weights of each tensor rank.
struct Trained {
  std::vector<double> losses, norms;
  int64_t tokens = 0;
  std::vector<std::vector<std::vector<double>>> weights;
};

Trained train(const RunConfig& run, const GridShape& shape, int ranks) {
  Trained trained;
  trained.weights.resize(static_cast<size_t>(shape.tensor));
  std::mutex mutex;
  run_thread_ranks(ranks, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, shape);
    Trainer trainer(run, groups, open_training_data(run));
    trainer.initialize();
    for (int step = 0; step < 3; ++step) {
      trainer.step();
      const StepResult result = trainer.result();
      if (world.rank() != 0) continue;
      trained.losses.push_back(result.loss());
      trained.norms.push_back(result.grad_norm);
      trained.tokens = result.tokens;
    }
    const Evaluation evaluation = trainer.evaluate();
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) trained.losses.push_back(evaluation.losses.total());
    auto& weights = trained.weights[static_cast<size_t>(groups.tp->rank())];
    std::vector<std::vector<double>> own;
    for (const Parameter& parameter : trainer.parameters().parameters()) {
      if (!trainer.parameters().keeps_values(parameter)) continue;
      own.push_back(test::to_doubles(parameter.value()));
    }
    if (weights.empty()) weights = own;
    EXPECT_EQ(weights, own) << "replicas differ";
  });
  return trained;
}

/// Batches are not cut yet, so context ranks repeat each other's rows: counts, sums of losses and
/// gradients are twice those of one context rank, and their quotients the same. A sum over `dp` in
/// place of `replicas`, or samples by `replicas` in place of `dp`, changes them.
TEST(ContextRanks, TrainLikeOneWithTheSameRows) {
  const test::TestFolder folder;
  test::write_small_data(folder);
  for (const SmallKind kind : {SmallKind::gpt, SmallKind::bert_pairs}) {
    for (const int tensor : {1, 2}) {
      for (const int64_t zero : {0, 1, 3}) {
        SCOPED_TRACE(fmt::format("{} tensor {} zero {}", to_string(kind), tensor, zero));
        RunConfig run = test::small_run(folder, "run", kind);
        run.model.dropout = 0.1;
        run.parallel = {.tensor = tensor, .zero = zero, .sequence = tensor == 2};
        run.optimizer.name = zero == 1 ? OptimizerName::muon : OptimizerName::adamw;
        run.log.noise_scale_interval = 1;
        GridShape shape = run.grid_shape();
        const Trained one = train(run, shape, 2 * tensor);
        shape.context = 2;
        const Trained two = train(run, shape, 4 * tensor);
        EXPECT_EQ(two.tokens, 2 * one.tokens);
        for (size_t i = 0; i < one.losses.size(); ++i) {
          EXPECT_NEAR(two.losses[i], one.losses[i], 1e-5 * one.losses[i]);
        }
        for (size_t i = 0; i < one.norms.size(); ++i) {
          EXPECT_NEAR(two.norms[i], one.norms[i], 1e-4 * one.norms[i]);
        }
        for (size_t rank = 0; rank < one.weights.size(); ++rank) {
          for (size_t i = 0; i < one.weights[rank].size(); ++i) {
            test::expect_close(two.weights[rank][i], one.weights[rank][i], 1e-4, "weights");
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
