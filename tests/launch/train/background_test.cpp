#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "launch/checkpoint/model_state.h"
#include "launch/checkpoint/save/background_save.h"
#include "launch/data/training_data.h"
#include "launch/train/trainer.h"
#include "tests/support/expect_error.h"
#include "tests/support/runs/device_ranks.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/runs/training_world.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using test::Layout;
using test::SmallKind;

/// The bytes of all files in a folder, by name.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

/// Training samples, one of which is damaged.
class DamagedDataset final : public Dataset {
 public:
  DamagedDataset(std::shared_ptr<const Dataset> whole, int64_t damaged_place)
      : whole_(std::move(whole)), damaged_place_(damaged_place) {}

  int64_t num_samples() const override { return whole_->num_samples(); }
  int64_t seq_length() const override { return whole_->seq_length(); }
  bool has_order() const override { return true; }
  void fill(int64_t sample, int64_t epoch, Sample& out) const override {
    require(sample != damaged_place_, "place {} is damaged", sample);
    whole_->fill(sample, epoch, out);
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  int64_t damaged_place_;
};

class BackgroundTraining : public testing::Test {
 protected:
  BackgroundTraining() { test::write_small_data(folder_); }

  /// Calls `use` on each rank with an initialized trainer.
  template <typename Use>
  void train(RunConfig run, Layout layout, const TrainingData& data, Use&& use) const {
    run.parallel.tensor = layout.tensor;
    test::run_device_ranks(layout.ranks(), [&](Communicator& world) {
      const ParallelGroups groups = make_parallel_groups(world, run.grid_shape());
      Trainer trainer(run, groups, data, test::test_device());
      trainer.initialize();
      use(trainer, groups);
    });
  }

  test::TestFolder folder_;
};

TEST_F(BackgroundTraining, SaveMatchesItsStepWhileTrainingContinues) {
  for (const auto& [precision, zero] :
       {std::pair{DType::f32, 0}, std::pair{DType::f32, 3}, std::pair{DType::bf16, 1}}) {
    for (const Layout layout : {Layout{1, 1}, Layout{2, 2}, Layout{1, 4}}) {
      SCOPED_TRACE(to_string(layout));
      RunConfig run = test::small_run(folder_, "background");
      run.run.precision = precision;
      run.parallel.zero = zero;
      RunConfig other = run;
      other.run.dir = folder_ / "foreground";
      train(run, layout, open_training_data(run), [](Trainer& trainer, const ParallelGroups&) {
        for (const int64_t step : {2, 4}) {
          while (trainer.steps_done() < step) trainer.step();
          trainer.begin_save();
          EXPECT_TRUE(trainer.saving());
          test::expect_error([&] { trainer.save(); }, {"finish_save() comes first"});
          trainer.step();
          EXPECT_EQ(trainer.finish_save().step, step);
          EXPECT_FALSE(trainer.saving());
        }
      });
      train(other, layout, open_training_data(other), [](Trainer& trainer, const ParallelGroups&) {
        for (const int64_t step : {2, 4}) {
          while (trainer.steps_done() < step) trainer.step();
          trainer.save();
          trainer.step();
        }
      });
      for (const char* step : {"step_00000002", "step_00000004"}) {
        const auto files = files_in(fs::path(run.run.dir) / "checkpoints" / step);
        EXPECT_GT(files.size(), 2u);
        EXPECT_TRUE(files == files_in(fs::path(other.run.dir) / "checkpoints" / step)) << step;
      }
      fs::remove_all(run.run.dir);
      fs::remove_all(other.run.dir);
    }
  }
}

TEST_F(BackgroundTraining, FailedSaveStopsAllRanksAndKeepsEarlierCheckpoints) {
  const RunConfig run = test::small_run(folder_, "run");
  train(run, {2, 2}, open_training_data(run), [&](Trainer& trainer, const ParallelGroups& groups) {
    trainer.step();
    trainer.save();
    trainer.step();
    const bool fails = groups.world.rank() == 3;
    trainer.begin_save([fails](const char* point) {
      require(!fails || std::string(point) != "during_data", "the disk is gone");
    });
    test::expect_error(
        [&] {
          while (!trainer.poll_save()) trainer.step();
        },
        {"the checkpoint of step 2 was not saved: rank 3 of 4: the disk is gone"});
    EXPECT_FALSE(trainer.saving());
    groups.world.barrier();
    const fs::path saved = fs::path(run.run.dir) / "checkpoints";
    EXPECT_EQ(std::distance(fs::directory_iterator(saved), fs::directory_iterator()), 1);
    groups.world.barrier();
    trainer.step();
    trainer.save();
  });
}

TEST_F(BackgroundTraining, PlanIncludesCheckpointCopy) {
  RunConfig run = test::small_run(folder_, "run");
  const auto line = [](const Trainer& trainer) {
    for (const auto& [what, bytes, in_host] : trainer.memory().lines) {
      if (what == "checkpoint copy") return bytes;
    }
    return size_t{0};
  };
  const auto planned = [&](const Layout& layout) {
    std::atomic<size_t> bytes = 0;
    train(run, layout, open_training_data(run),
          [&](Trainer& trainer, const ParallelGroups&) { bytes = line(trainer); });
    return bytes.load();
  };
  run.train.steps = 10;
  run.checkpoint.interval = 5;
  for (const Layout layout : {Layout{1, 1}, Layout{1, 4}, Layout{2, 2}, Layout{4, 1}}) {
    SCOPED_TRACE(to_string(layout));
    std::mutex mutex;
    size_t most = 0, plan = 0;  // of any rank
    train(run, layout, open_training_data(run),
          [&](Trainer& trainer, const ParallelGroups& groups) {
            BackgroundSave save(groups.world);
            SaveRequest request;
            request.run_dir = run.run.dir;
            request.tensors = local_tensors(trainer.optimizer_state(), groups);
            save.begin(request);
            save.finish();
            const std::lock_guard lock(mutex);
            most = std::max(most, save.copy_bytes());
            plan = std::max(plan, line(trainer));
          });
    EXPECT_GE(plan, most);  // of the ranks that hold the same, the plan does not know which is this
    EXPECT_LE(plan, most * 101 / 100);
  }
  run.checkpoint.interval = 10;  // saves only at the end
  EXPECT_EQ(planned({1, 1}), 0u);
  run.checkpoint.interval = 0;
  EXPECT_EQ(planned({1, 1}), 0u);
  run.checkpoint.interval = 5;
  run.checkpoint.background = false;
  EXPECT_EQ(planned({1, 1}), 0u);
}

// Place 24 belongs to the fourth step. Prefetching finds the damage during the third.
TEST_F(BackgroundTraining, DamagedSampleStopsAllRanksAtItsStep) {
  RunConfig run = test::small_run(folder_, "run");
  ASSERT_EQ(run.batch.global, 8);
  TrainingData data = open_training_data(run);
  data.train = std::make_shared<DamagedDataset>(data.train, 24);
  for (const Layout layout : {Layout{1, 1}, Layout{2, 2}, Layout{1, 4}}) {
    SCOPED_TRACE(to_string(layout));
    train(run, layout, data, [&](Trainer& trainer, const ParallelGroups&) {
      for (int step = 0; step < 3; ++step) trainer.step();
      const StepResult result = trainer.result();
      EXPECT_EQ(result.step, 3);
      EXPECT_GT(result.data_wait_seconds, 0.0);  // at least in the first step
      EXPECT_LE(result.data_wait_seconds, result.seconds);
      test::expect_error([&] { trainer.step(); }, {"place 24 is damaged"});
      EXPECT_EQ(trainer.steps_done(), 3);
      EXPECT_EQ(trainer.samples_done(), 24);
    });
  }
}

}  // namespace
}  // namespace tessera
