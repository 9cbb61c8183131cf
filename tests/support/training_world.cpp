#include "tests/support/training_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "core/deterministic.h"
#include "launch/checkpoint/find.h"
#include "launch/data/training_data.h"
#include "launch/train/start.h"
#include "tests/support/device_ranks.h"
#include "tests/support/shards.h"
#include "tests/support/tensors.h"

namespace tessera::test {
namespace {

/// Some elements of a parameter's shard, indexed in row-major order.
struct LocalValues {
  Range elements;
  Tensor data;
};
using PickHeld = std::function<LocalValues(const Parameter&)>;

/// Returns a parameter's whole shard if it is complete, otherwise the part that this rank owns.
LocalValues local_values(const Parameter& parameter, const Tensor& local, const Tensor& owned) {
  if (!local.defined()) return {parameter.optimizer_shard.elements, owned};
  return {{0, parameter.real_shape().numel()}, parameter.real_part(local)};
}

LocalValues masters(const Parameter& p) {
  return local_values(p, p.master, p.optimizer_shard.master);
}
LocalValues moments(const Parameter& p) {
  return local_values(p, p.exp_avg, p.optimizer_shard.exp_avg);
}
/// If moments are sharded (ZeRO), gradients are summed only where the moments are.
LocalValues grads(const Parameter& p) {
  return local_values(p, p.exp_avg.defined() ? p.grad : Tensor(), p.optimizer_shard.grad);
}

/// Copies a rank's part of a parameter into the whole tensor, and checks it against elements that
/// are already there.
void put(const Parameter& parameter, const LocalValues& part, std::vector<float>& whole,
         std::vector<bool>& known) {
  const float* from = part.data.data<float>();
  for_each_run(parameter.global_shape, parameter.shard,
               [&](int64_t global, int64_t local, int64_t count) {
                 const Range run = intersect({local, local + count}, part.elements);
                 for (int64_t i = run.begin - local; i < run.end - local; ++i) {
                   const auto at = static_cast<size_t>(global + i);
                   const float value = from[local + i - part.elements.begin];
                   const bool same = std::memcmp(&whole[at], &value, sizeof(value)) == 0;
                   EXPECT_TRUE(!known[at] || same)
                       << parameter.name << ": replicas differ at element " << at;
                   whole[at] = value;
                   known[at] = true;
                 }
               });
}

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
}

/// Collects whole tensors from all ranks.
class Collector {
 public:
  void add(const ParameterStore& store, const PickHeld& pick, WholeTensors& into) {
    const std::lock_guard lock(mutex_);
    for (const Parameter& parameter : store.parameters()) {
      std::vector<float>& whole = into[parameter.name];
      std::vector<bool>& known = known_[{&into, parameter.name}];
      whole.resize(static_cast<size_t>(parameter.global_shape.numel()));
      known.resize(whole.size());
      put(parameter, pick(parameter), whole, known);
    }
  }

  /// Checks that every element of every tensor was on some rank.
  void expect_complete() const {
    for (const auto& [key, known] : known_) {
      EXPECT_TRUE(std::all_of(known.begin(), known.end(), [](bool b) { return b; }))
          << key.second << " has holes";
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const WholeTensors*, std::string>, std::vector<bool>> known_;
};

}  // namespace

std::string to_string(const Layout& layout) {
  return fmt::format("tensor {} x data {}", layout.tensor, layout.data);
}

WholeRun train_whole(const RunConfig& base, const RunPlan& plan) {
  RunConfig config = base;
  config.parallel.tensor = plan.layout.tensor;
  WholeRun result;
  Collector collector;
  run_device_ranks(plan.layout.ranks(), [&](Communicator& world) {
    const ParallelGroups groups = make_parallel_groups(world, plan.layout.tensor);
    const Device device = plan.device.is_cuda() ? test_device() : plan.device;
    allow_cudnn_dropout(config.train.cudnn_dropout);
    Trainer trainer(config, groups, open_training_data(config), device);
    if (plan.resume) {
      const auto newest = newest_intact_checkpoint(
          config.run.dir, [](const std::string&) {}, world);
      require(newest.has_value(), "no checkpoint to resume from in {}", config.run.dir);
      Checkpoint checkpoint = Checkpoint::open(*newest);
      trainer.restore(checkpoint);
    } else {
      trainer.initialize();
    }
    const ParameterStore& store = trainer.parameters();
    collector.add(store, masters, result.initial_weights);
    std::vector<StepResult> steps;
    for (int64_t i = 0; i < plan.steps; ++i) {
      trainer.step();
      steps.push_back(trainer.result());
      if (i == 0) collector.add(store, grads, result.first_gradients);
    }
    collector.add(store, masters, result.weights);
    collector.add(store, moments, result.exp_avg);
    const Evaluation evaluation = trainer.evaluate();
    if (plan.save) trainer.save();
    if (world.rank() == 0) {
      result.steps = steps;
      result.evaluation = evaluation;
      result.graph_launches = trainer.graph_launches();
    }
  });
  collector.expect_complete();
  return result;
}

void expect_close(const WholeTensors& actual, const WholeTensors& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& found = actual.at(name);
    test::expect_close(std::vector<double>(found.begin(), found.end()),
                       std::vector<double>(values.begin(), values.end()), tolerance,
                       (what + ": " + name).c_str());
  }
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
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& found = actual.at(name);
    ASSERT_EQ(found.size(), values.size()) << what << ": " << name;
    EXPECT_EQ(std::memcmp(found.data(), values.data(), values.size() * sizeof(float)), 0)
        << what << ": " << name << " differs in its bits";
  }
}

}  // namespace tessera::test
