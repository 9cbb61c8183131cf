#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "launch/data/training_data.h"
#include "launch/metrics/noise_scale.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::Layout;
using test::SmallKind;

class MeasuredGradients : public testing::TestWithParam<SmallKind> {
 protected:
  MeasuredGradients() {
    test::write_small_data(folder_);
    run_ = test::small_run(folder_, "run", GetParam());
    run_.model.dropout = run_.model.attention_dropout = 0.0;
    run_.batch = {4, 1};
  }

  /// The squared norms of the gradients of `count` samples, from each place of the run's order,
  /// with the initial weights.
  std::vector<double> squares(int64_t count, int64_t places) const {
    RunConfig alone = run_;
    alone.batch = {count, 1};
    alone.optimizer.lr = alone.optimizer.min_lr = 0.0;
    std::vector<double> found;
    run_thread_ranks(1, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world);
      Trainer trainer(alone, groups, open_training_data(alone));
      trainer.initialize();
      for (int64_t place = 0; place < places; place += count) {
        trainer.step();
        const double norm = trainer.result().grad_norm;
        found.push_back(norm * norm);
      }
    });
    return found;
  }

  test::TestFolder folder_;
  RunConfig run_;
};

// The samples of these runs have the same number of targets, so that a mean over samples is one
// over targets.
TEST_P(MeasuredGradients, HaveTheNoiseScaleOfTheirNormsOnEveryLayout) {
  const std::vector<double> one = squares(1, 4), two = squares(2, 4), all = squares(4, 4);
  struct Case {
    Layout layout;
    int64_t micro;
    double few;
  };
  for (const Case& each : {Case{{1, 1}, 1, one[0]},
                           {{1, 1}, 2, two[0]},
                           {{2, 1}, 1, one[0]},
                           {{1, 2}, 1, (one[0] + one[2]) / 2},
                           {{1, 2}, 2, (two[0] + two[1]) / 2},
                           {{2, 2}, 2, (two[0] + two[1]) / 2},
                           {{1, 4}, 1, (one[0] + one[1] + one[2] + one[3]) / 4}}) {
    SCOPED_TRACE(fmt::format("{}, micro-batches of {}", to_string(each.layout), each.micro));
    NoiseScale expected;
    expected.add({each.few, all[0], each.micro, 4});
    RunConfig measured = run_;
    measured.batch.micro = each.micro;
    measured.parallel.tensor = each.layout.tensor;
    measured.parallel.sequence = each.layout.tensor > 1;
    measured.parallel.zero = each.layout.data > 1 ? 3 : 0;
    RunConfig plain = measured;
    measured.log.noise_scale_interval = 2;
    run_thread_ranks(each.layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, measured.grid_shape());
      const TrainingData data = open_training_data(measured);
      RunConfig at_once = measured;
      at_once.log.noise_scale_interval = 1;
      Trainer first(at_once, groups, data);
      first.initialize();
      first.step();
      const auto found = first.result().noise_scale;
      ASSERT_EQ(found.has_value(), expected.value().has_value());
      // Differences of norms, whose fp32 rounding is multiplied.
      if (found) {
        EXPECT_NEAR(*found, *expected.value(), 1e-3 * *expected.value());
      }

      Trainer with(measured, groups, data), without(plain, groups, data);
      with.initialize();
      without.initialize();
      for (int step = 0; step < 3; ++step) {
        with.step();
        without.step();
        if (step == 0) {
          EXPECT_EQ(with.result().noise_scale, std::nullopt);
        }
      }
      test::expect_same_bits(with.parameters().flat_values(), without.parameters().flat_values(),
                             "values");
    });
  }
}

TEST_P(MeasuredGradients, HaveHistogramsOfEachElementOnEveryLayout) {
  std::vector<ParameterHistograms> whole;
  for (const Layout layout : {Layout{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
    SCOPED_TRACE(to_string(layout));
    RunConfig run = run_;
    run.parallel.tensor = layout.tensor;
    run.parallel.sequence = layout.tensor > 1;
    run.parallel.zero = layout.data > 1 ? 3 : 0;
    run.optimizer.lr = run.optimizer.min_lr = 0.0;
    run_thread_ranks(layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      Trainer trainer(run, groups, open_training_data(run));
      trainer.initialize();
      trainer.step();
      const std::vector<ParameterHistograms> found = trainer.histograms();
      if (world.rank() != 0) return;
      if (layout.ranks() == 1) whole = found;
      ASSERT_EQ(found.size(), whole.size());
      size_t i = 0;
      for (const Parameter& parameter : trainer.parameters().parameters()) {
        if (parameter.frozen) continue;
        const ParameterHistograms &own = found[i], &expected = whole[i];
        ++i;
        ASSERT_EQ(own.name, parameter.name);
        EXPECT_EQ(own.weights.total(), parameter.global_shape.numel()) << own.name;
        EXPECT_EQ(own.weights.counts, expected.weights.counts) << own.name;
        EXPECT_EQ(own.weights.least, expected.weights.least) << own.name;
        EXPECT_EQ(own.weights.largest, expected.weights.largest) << own.name;
        // Gradients differ by rounding.
        EXPECT_EQ(own.gradients.total(), parameter.global_shape.numel()) << own.name;
        EXPECT_NEAR(own.gradients.sum_squares, expected.gradients.sum_squares,
                    1e-4 * expected.gradients.sum_squares + 1e-12)
            << own.name;
      }
      EXPECT_EQ(i, whole.size());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MeasuredGradients,
                         testing::Values(SmallKind::gpt, SmallKind::qwen3),
                         [](const auto& kind) { return test::to_string(kind.param); });

}  // namespace
}  // namespace tessera
