#include "launch/train/replica_check.h"

#include <gtest/gtest.h>

#include <bit>

#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "parallel/host/host_name.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using test::SmallKind;

using PickTensor = Tensor (*)(const Parameter&, const OptimizerShard&);

Tensor value_of(const Parameter& parameter, const OptimizerShard& /*own*/) {
  return parameter.value();
}

/// Flips the lowest bit of the first number.
void corrupt(const Trainer& trainer, const std::string& name, PickTensor pick = value_of) {
  for (const Parameter& parameter : trainer.parameters().parameters()) {
    if (parameter.name != name) continue;
    const Tensor picked = pick(parameter, trainer.optimizer_state().of(parameter));
    *static_cast<uint8_t*>(picked.raw()) ^= 1u;
    return;
  }
  throw Error("no parameter " + name);
}

class ReplicaChecks : public testing::Test {
 protected:
  ReplicaChecks() { test::write_small_data(folder_); }

  void expect_nothing_saved() const {
    const std::string run = test::small_run(folder_, "run").run.dir;
    EXPECT_TRUE(std::filesystem::is_empty(run + "/checkpoints"));
  }

  /// Trains with a check after more than one step; `rank` corrupts a weight after the first.
  void train(int data, int tensor, int rank, const std::string& name, int64_t steps) {
    RunConfig config = test::small_run(folder_, "run");
    config.parallel.tensor = tensor;
    config.train.check_replicas_interval = 2;
    run_thread_ranks(data * tensor, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, config.grid_shape());
      Trainer trainer(config, groups, open_training_data(config));
      trainer.initialize();
      trainer.step();
      if (world.rank() == rank) corrupt(trainer, name);
      for (int64_t i = 1; i < steps; ++i) trainer.step();
      if (steps > 1) trainer.check_replicas();
      trainer.save();
    });
  }

  test::TestFolder folder_;

  /// Saves after a step with a check, before which `rank` corrupts a tensor.
  void save(RunConfig config, int data, int rank, const std::string& name, PickTensor pick) const {
    config.train.check_replicas_interval = 100;
    const auto tensor = static_cast<int>(config.parallel.tensor);
    run_thread_ranks(data * tensor, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, config.grid_shape());
      Trainer trainer(config, groups, open_training_data(config));
      trainer.initialize();
      trainer.step();
      if (world.rank() == rank) corrupt(trainer, name, pick);
      trainer.save();
    });
  }
};

constexpr int kNone = -1;
constexpr const char* kShardedName = "blocks.0.mlp.up.weight";
constexpr const char* kReplicatedName = "blocks.0.attention_norm.weight";

TEST_F(ReplicaChecks, HealthyRanksPass) {
  train(4, 1, kNone, "", 4);
  train(2, 2, kNone, "", 4);
}

TEST_F(ReplicaChecks, NameRankThatDiffersFromMost) {
  const std::string host = host_name();
  test::expect_error([&] { train(4, 1, 2, kShardedName, 2); },
                     {"after step 2, ", "the values of", kShardedName,
                      ("differ on rank 2 (host " + host + ") from ranks 0 (host").c_str(),
                      "resume from an earlier checkpoint"});
  // One of four tensor ranks has another norm. With its activations, all of its gradients differ.
  test::expect_error([&] { train(1, 4, 3, kReplicatedName, 2); },
                     {"differ on rank 3 (host", "from ranks 0 "});
}

TEST_F(ReplicaChecks, NameBothOfTwoRanksThatDiffer) {
  test::expect_error([&] { train(2, 2, 1, kShardedName, 2); },
                     {kShardedName, "differ between ranks 1 (host", ", 3 (host", "no majority"});
}

TEST_F(ReplicaChecks, AreMadeBySaves) {
  test::expect_error([&] { train(4, 1, 2, kShardedName, 1); },
                     {"after step 1, ", "differ on rank 2 "});
  expect_nothing_saved();
}

TEST_F(ReplicaChecks, FindABitInAllStateThatHasCopies) {
  struct Case {
    const char* what;
    PickTensor pick;
    DType precision = DType::f32, moments = DType::f32;
  };
  const Case cases[] = {
      {"the values", value_of},
      {"the values", value_of, DType::bf16},
      {"the fp32 masters", [](const Parameter&, const OptimizerShard& own) { return own.master; },
       DType::bf16},
      {"the first moments",
       [](const Parameter&, const OptimizerShard& own) { return own.exp_avg; }},
      {"the second moments",
       [](const Parameter&, const OptimizerShard& own) { return own.exp_avg_sq; }},
      {"the first moments", [](const Parameter&, const OptimizerShard& own) { return own.exp_avg; },
       DType::bf16, DType::bf16},
      {"the second moments",
       [](const Parameter&, const OptimizerShard& own) { return own.exp_avg_sq; }, DType::f32,
       DType::bf16},
      {"the first moments", [](const Parameter&, const OptimizerShard& own) { return own.exp_avg; },
       DType::f32, DType::u8},
      {"the scales of the first moments",
       [](const Parameter&, const OptimizerShard& own) { return own.exp_avg_scales; }, DType::f32,
       DType::u8},
      {"the scales of the second moments",
       [](const Parameter&, const OptimizerShard& own) { return own.exp_avg_sq_scales; },
       DType::f32, DType::u8},
      {"the averages", [](const Parameter&, const OptimizerShard& own) { return own.ema; }}};
  for (const Case& each : cases) {
    RunConfig run = test::small_run(folder_, "run");
    run.run.precision = each.precision;
    run.optimizer.moment_dtype = each.moments;
    run.optimizer.ema_decay = 0.9;
    test::expect_error([&] { save(run, 4, 2, kShardedName, each.pick); },
                       {"after step 1, ", each.what, kShardedName, "differ on rank 2 (host"});
    expect_nothing_saved();
  }
}

TEST_F(ReplicaChecks, ThreeOfFourRanksAreAMajorityOnAnyLayout) {
  RunConfig run = test::small_run(folder_, "run");
  run.parallel.tensor = 2;
  const auto first_moment = [](const Parameter&, const OptimizerShard& own) { return own.exp_avg; };
  for (const PickTensor pick : {PickTensor(value_of), PickTensor(first_moment)}) {
    test::expect_error([&] { save(run, 2, 3, kReplicatedName, pick); },
                       {kReplicatedName, "differ on rank 3 (host", "from ranks 0 (host"});
  }
}

TEST_F(ReplicaChecks, StateOfOneOwnerHasNoCopies) {
  RunConfig run = test::small_run(folder_, "run");
  run.parallel.zero = 1;
  run.parallel.tensor = 2;
  const auto first_moment = [](const Parameter&, const OptimizerShard& own) { return own.exp_avg; };
  const auto holds_all = [&](const char* name) {
    EXPECT_NO_THROW(save(run, 1, 1, name, first_moment)) << "one data rank shares with nobody";
  };
  holds_all(kShardedName);
  EXPECT_NO_THROW(save(run, 2, kNone, "", first_moment));
  run.parallel.tensor = 1;
  test::expect_error([&] { save(run, 4, 1, kShardedName, value_of); },
                     {"the values", "differ on rank 1 (host"});
}

TEST_F(ReplicaChecks, FindABitInACopyOfAShard) {
  RunConfig run = test::small_run(folder_, "run");
  run.parallel.zero = 3;
  run.parallel.shard = 2;
  const auto own_value = [](const Parameter&, const OptimizerShard& own) { return own.value; };
  test::expect_error([&] { save(run, 4, 3, kShardedName, own_value); },
                     {"the values", kShardedName, "differ between ranks 1 (host", ", 3 (host"});
  expect_nothing_saved();
}

// After a check of the step, but before the tensors are read.
TEST_F(ReplicaChecks, FindWhatChangesWhenASaveBegins) {
  for (const bool in_background : {false, true}) {
    RunConfig config = test::small_run(folder_, "run");
    config.train.check_replicas_interval = 1;
    const auto save = [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, config.grid_shape());
      Trainer trainer(config, groups, open_training_data(config));
      trainer.initialize();
      trainer.step();
      const SaveObserver observer = [&](const char* point) {  // on rank 0
        if (std::string_view(point) == "after_create") corrupt(trainer, kShardedName);
      };
      if (!in_background) trainer.save(observer);
      if (in_background) trainer.begin_save(observer);
    };
    test::expect_error([&] { run_thread_ranks(4, save); },
                       {"the checkpoint of step 1 was not saved", "differ on rank 0 (host "});
    expect_nothing_saved();
  }
}

}  // namespace
}  // namespace tessera
