#include "tests/support/runs/training_world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/process_grid.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/tensors.h"

namespace tessera::test {
namespace {

void expect_equal(const Evaluation& sharded, const Evaluation& whole, double tolerance) {
  EXPECT_NEAR(sharded.losses.token, whole.losses.token, tolerance * whole.losses.token);
  EXPECT_NEAR(sharded.losses.document, whole.losses.document, tolerance * whole.losses.document);
  EXPECT_EQ(sharded.counts.tokens, whole.counts.tokens);
  EXPECT_EQ(sharded.counts.token_targets, whole.counts.token_targets);
  EXPECT_EQ(sharded.counts.document_targets, whole.counts.document_targets);
  // Only nearly equal logits could be swapped by rounding, and none of the few hundred targets of a
  // small run has such a pair.
  EXPECT_EQ(sharded.token_accuracy, whole.token_accuracy);
  EXPECT_EQ(sharded.most_frequent_token, whole.most_frequent_token);
  EXPECT_EQ(sharded.document_accuracy, whole.document_accuracy);
  EXPECT_EQ(sharded.f1, whole.f1);
  ASSERT_EQ(sharded.metrics.size(), whole.metrics.size());
  for (size_t i = 0; i < whole.metrics.size(); ++i) {
    EXPECT_EQ(sharded.metrics[i].value, whole.metrics[i].value) << whole.metrics[i].key;
  }
}

}  // namespace

std::string to_string(const Layout& layout) {
  const std::string text = fmt::format("tensor {} x data {}", layout.tensor, layout.data);
  return layout.context == 1 ? text : text + fmt::format(" x context {}", layout.context);
}

WholeRun train_whole(const RunConfig& base, const RunPlan& plan) {
  RunConfig config = base;
  config.parallel.tensor = plan.layout.tensor;
  config.parallel.context = plan.layout.context;
  const auto device = [&] { return plan.device.is_cuda() ? test_device() : plan.device; };
  return train_and_gather(config, {.ranks = plan.layout.ranks(),
                                   .steps = plan.steps,
                                   .resume = plan.resume,
                                   .save = plan.save,
                                   .run_ranks = run_device_ranks,
                                   .device = device});
}

std::filesystem::path train_checkpoint(const RunConfig& config) {
  std::filesystem::path path;
  run_thread_ranks(1, [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world);
    Trainer trainer(config, groups, open_training_data(config));
    trainer.initialize();
    for (int i = 0; i < 5; ++i) trainer.step();
    path = trainer.save().path;
  });
  return path;
}

void expect_close(const WholeTensors& actual, const WholeTensors& expected, double tolerance,
                  const std::string& what) {
  EXPECT_EQ(difference(actual, expected, tolerance), std::nullopt) << what;
}

void expect_equal(const WholeRun& sharded, const WholeRun& whole, double tolerance) {
  ASSERT_EQ(sharded.steps.size(), whole.steps.size());
  for (size_t i = 0; i < whole.steps.size(); ++i) {
    const StepResult &found = sharded.steps[i], &expected = whole.steps[i];
    SCOPED_TRACE(fmt::format("step {}", i));
    EXPECT_NEAR(found.losses.token, expected.losses.token, tolerance * expected.losses.token);
    EXPECT_NEAR(found.losses.document, expected.losses.document,
                tolerance * expected.losses.document);
    EXPECT_NEAR(found.grad_norm, expected.grad_norm, 10 * tolerance * expected.grad_norm);
    EXPECT_EQ(found.tokens, expected.tokens);
  }
  expect_equal(sharded.evaluation, whole.evaluation, tolerance);
  expect_close(sharded.first_gradients, whole.first_gradients, tolerance, "gradient");
  expect_close(sharded.weights, whole.weights, 10 * tolerance, "weight");
}

void expect_same_bits(const WholeTensors& actual, const WholeTensors& expected,
                      const std::string& what) {
  EXPECT_EQ(bit_difference(actual, expected), std::nullopt) << what;
}

}  // namespace tessera::test
