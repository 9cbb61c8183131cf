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

/// Flips the lowest bit of a weight.
void corrupt(const Trainer& trainer, const std::string& name) {
  for (const Parameter& parameter : trainer.parameters().parameters()) {
    if (parameter.name != name) continue;
    auto& weight = parameter.value.data<float>()[0];
    weight = std::bit_cast<float>(std::bit_cast<uint32_t>(weight) ^ 1u);
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

  /// Trains with a check after every second step; `rank` corrupts a weight after the first.
  void train(int data, int tensor, int rank, const std::string& name, int64_t steps) {
    RunConfig config = test::small_run(folder_, "run");
    config.parallel.tensor = tensor;
    config.train.check_replicas_interval = 2;
    run_thread_ranks(data * tensor, [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, tensor);
      Trainer trainer(config, groups, open_training_data(config));
      trainer.initialize();
      trainer.step();
      if (world.rank() == rank) corrupt(trainer, name);
      for (int64_t i = 1; i < steps; ++i) trainer.step();
      trainer.save();
    });
  }

  test::TestFolder folder_;
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
                     {"after step 2, ", "1 of the ", kShardedName,
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

// After a check of the step, but before the tensors are read.
TEST_F(ReplicaChecks, FindWhatChangesWhenASaveBegins) {
  for (const bool in_background : {false, true}) {
    RunConfig config = test::small_run(folder_, "run");
    config.train.check_replicas_interval = 1;
    const auto save = [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, 1);
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
