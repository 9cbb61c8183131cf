#include <sched.h>
#include <sys/mount.h>

#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "launch/checkpoint/find.h"
#include "launch/checkpoint/save/background_save.h"
#include "launch/checkpoint/save/save_steps.h"
#include "launch/checkpoint/save/slice_copies.h"
#include "launch/checkpoint/verify.h"
#include "parallel/host/host_name.h"
#include "tests/launch/checkpoint/faults.h"
#include "tests/launch/checkpoint/fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The bytes of all files in a folder, by name.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const std::string& name : names_in(folder)) files[name] = read_text(folder / name);
  return files;
}

/// Changes all tensors, as training does while they are being written.
void change(const RankTensors& own) {
  for (const LocalTensor& tensor : own.tensors) {
    for (int64_t i = 0; i < tensor.data.numel(); ++i) set_value(tensor.data, i, 1);
  }
}

/// Polls like a training run between its steps.
SavedCheckpoint poll_until_saved(BackgroundSave& save) {
  while (true) {
    if (const auto saved = save.poll()) return *saved;
    std::this_thread::yield();
  }
}

/// Blocks the save at a point until open() is called.
class Gate {
 public:
  explicit Gate(std::string at) : at_(std::move(at)), opened_(opening_.get_future().share()) {}
  SaveObserver observer() {
    return [this](const char* point) {
      if (point != at_) return;
      reached_ = true;
      opened_.wait();
    };
  }
  void wait_until_reached() const {
    while (!reached_) std::this_thread::yield();
  }
  void open() { opening_.set_value(); }

 private:
  std::string at_;
  std::atomic<bool> reached_ = false;
  std::promise<void> opening_;
  std::shared_future<void> opened_;
};

struct BackgroundLayout {
  int tensor, data;
};

class CheckpointBackground : public testing::TestWithParam<BackgroundLayout> {
 protected:
  int ranks() const { return GetParam().tensor * GetParam().data; }
  TestFolder run_;
};

TEST_P(CheckpointBackground, MatchesForegroundSaveWhileTensorsChange) {
  const TestFolder other;
  const auto [tensor, data] = GetParam();
  for (const bool polls : {true, false}) {
    std::mutex mutex;
    std::vector<size_t> copy_bytes;
    run_thread_ranks(ranks(), [&, tensor_ranks = tensor, data_ranks = data](Communicator& world) {
      BackgroundSave save(world);
      if (polls) save.reserve(100, kCpu);  // too small
      for (const int64_t step : {3, 4}) {  // reuses the same copies
        const RankTensors own =
            rank_tensors(test_model(), world.rank(), tensor_ranks, step, data_ranks);
        SaveRequest request = request_for(run_.path(), step, own);
        save.begin(request);
        request = {};
        change(own);
        EXPECT_TRUE(save.pending());
        const SavedCheckpoint saved = polls ? poll_until_saved(save) : save.finish();
        EXPECT_FALSE(save.pending());
        EXPECT_EQ(saved.step, step);
        EXPECT_EQ(saved.path, checkpoints_folder(run_.path()) / step_name(step));
        EXPECT_GT(saved.seconds, 0.0);
        EXPECT_GT(saved.background_seconds, 0.0);
        const std::lock_guard lock(mutex);
        copy_bytes.push_back(save.copy_bytes());
      }
    });
    for (const int64_t step : {3, 4}) {
      const fs::path expected = save_on_threads(other.path(), step, tensor, data, step);
      EXPECT_EQ(files_in(checkpoints_folder(run_.path()) / step_name(step)), files_in(expected));
    }
    // Each slice is copied once: all ranks together copy as much as a single rank does.
    size_t most = 0;
    for (const LocalTensor& local : rank_tensors(test_model(), 0, 1).tensors)
      most += local.data.bytes() + 64;
    for (const size_t bytes : copy_bytes) EXPECT_LE(bytes, most);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, CheckpointBackground,
                         testing::Values(BackgroundLayout{1, 1}, BackgroundLayout{2, 1},
                                         BackgroundLayout{1, 3}, BackgroundLayout{2, 2},
                                         BackgroundLayout{4, 1}),
                         [](const auto& instance) {
                           return fmt::format("tensor{}_data{}", instance.param.tensor,
                                              instance.param.data);
                         });

// Only rank 2 is blocked; the others finish writing long before.
TEST(CheckpointBackgroundOrder, PublishesOnlyAfterAllRanksHaveWritten) {
  TestFolder run;
  save_on_threads(run.path(), 1, 4, 1);
  Gate gate("after_data");
  run_thread_ranks(4, [&](Communicator& world) {
    const RankTensors own = rank_tensors(test_model(), world.rank(), 4, 5);
    SaveRequest request = request_for(run.path(), 2, own);
    if (world.rank() == 2) request.observer = gate.observer();
    BackgroundSave save(world);
    save.begin(request);
    gate.wait_until_reached();
    for (int step = 0; step < 20; ++step) EXPECT_FALSE(save.poll().has_value());
    EXPECT_TRUE(save.pending());
    EXPECT_FALSE(fs::exists(checkpoints_folder(run.path()) / step_name(2)));
    EXPECT_EQ(newest_intact_checkpoint(run.path(), {})->filename(), step_name(1));
    world.barrier();
    if (world.rank() == 0) gate.open();
    poll_until_saved(save);
    expect_piece(checkpoints_folder(run.path()) / step_name(2), world.rank(), 4, 5);
  });
}

// As faulty memory would. Without the check, the checkpoint would have the flipped bit and a
// checksum that covers it.
TEST(CheckpointBackgroundOrder, NamesACopyThatChangesBeforeItIsWritten) {
  const TestFolder run;
  run_thread_ranks(2, [&](Communicator& world) {
    const RankTensors own = rank_tensors(test_model(), world.rank(), 2, 5);
    SliceCopies copies;
    SaveSteps steps(request_for(run.path(), 2, own));
    steps.agree(world);
    if (world.rank() == 0) steps.create();
    world.barrier();
    const std::vector<LocalTensor> copied = copies.copy(own.tensors);
    steps.set_tensors(copied);
    steps.add_checksums();
    if (world.rank() == 0) return static_cast<void>(steps.write());
    auto* byte = static_cast<std::byte*>(copied.back().data.raw());
    *byte ^= std::byte{16};
    EXPECT_THAT(error_of([&] { steps.write(); }),
                AllOf(HasSubstr("the copy of " + copied.back().name + " in memory has changed"),
                      HasSubstr("host " + host_name())));
  });
}

TEST(CheckpointBackgroundOrder, RejectsSecondSaveBeforeFirstFinishes) {
  TestFolder run;
  Gate gate("before_manifest");
  run_thread_ranks(2, [&](Communicator& world) {
    const RankTensors first = rank_tensors(test_model(), world.rank(), 2, 5);
    const RankTensors second = rank_tensors(test_model(), world.rank(), 2, 6);
    SaveRequest request = request_for(run.path(), 1, first);
    if (world.rank() == 0) request.observer = gate.observer();
    BackgroundSave save(world);
    EXPECT_THAT(error_of([&] { save.poll(); }), HasSubstr("no checkpoint is being saved"));
    EXPECT_THAT(error_of([&] { save.finish(); }), HasSubstr("no checkpoint is being saved"));
    save.begin(request);
    EXPECT_THAT(error_of([&] { save.begin(request_for(run.path(), 2, second)); }),
                HasSubstr("the next one must wait"));
    if (world.rank() == 0) gate.open();
    save.finish();
    save.begin(request_for(run.path(), 2, second));
    save.finish();
    expect_piece(checkpoints_folder(run.path()) / step_name(1), world.rank(), 2, 5);
    expect_piece(checkpoints_folder(run.path()) / step_name(2), world.rank(), 2, 6);
  });
}

TEST(CheckpointBackgroundOrder, PrunesOldCheckpointsAndWarnsOnFailure) {
  TestFolder run;
  for (const int64_t step : {1, 2, 3}) save_on_threads(run.path(), step, 2, 1);
  for (const bool fails : {false, true}) {
    run_thread_ranks(2, [&](Communicator& world) {
      const RankTensors own = rank_tensors(test_model(), world.rank(), 2);
      SaveRequest request = request_for(run.path(), fails ? 5 : 4, own);
      request.keep = 2;
      request.best = 1;
      if (fails) request.observer = throw_at("during_prune");
      BackgroundSave save(world);
      save.begin(request);
      const SavedCheckpoint saved = poll_until_saved(save);
      EXPECT_EQ(saved.warnings.size(), fails && world.rank() == 0 ? 1u : 0u);
    });
    EXPECT_TRUE(verify_checkpoint(checkpoints_folder(run.path()) / step_name(4)).whole());
    EXPECT_TRUE(verify_checkpoint(checkpoints_folder(run.path()) / step_name(1)).whole());
    EXPECT_FALSE(fs::exists(checkpoints_folder(run.path()) / step_name(2)));
  }
  EXPECT_TRUE(verify_checkpoint(checkpoints_folder(run.path()) / step_name(5)).whole());
}

struct Failure {
  const char* point;
  int rank;
};

class CheckpointBackgroundFailure : public testing::TestWithParam<Failure> {};

TEST_P(CheckpointBackgroundFailure, ThrowsSameErrorOnAllRanksAndAllowsNextSave) {
  const auto [point, failing] = GetParam();
  for (const bool polls : {true, false}) {
    TestFolder run;
    const fs::path folder = checkpoints_folder(run.path());
    save_on_threads(run.path(), 1, 2, 1);
    std::vector<std::string> errors(4);
    run_thread_ranks(4, [&, at = std::string(point), rank = failing](Communicator& world) {
      const RankTensors own = rank_tensors(test_model(), world.rank(), 4);
      BackgroundSave save(world);
      SaveRequest request = request_for(run.path(), 2, own);
      if (world.rank() == rank) request.observer = throw_at(at);
      errors[static_cast<size_t>(world.rank())] = error_of([&] {
        save.begin(request);
        polls ? poll_until_saved(save) : save.finish();
      });
      EXPECT_FALSE(save.pending());
      world.barrier();
      EXPECT_THAT(names_in(folder), ElementsAre("step_00000001"));
      EXPECT_TRUE(verify_checkpoint(folder / step_name(1)).whole());
      world.barrier();
      save.begin(request_for(run.path(), 2, own));
      poll_until_saved(save);
      expect_piece(folder / step_name(2), world.rank(), 4);
    });
    EXPECT_THAT(errors, Each(errors[0]));
    EXPECT_THAT(errors[0], AllOf(HasSubstr("the checkpoint of step 2 was not saved: rank " +
                                           std::to_string(failing) + " of 4: failed at " + point),
                                 HasSubstr("(earlier checkpoints are unchanged)")));
  }
}

INSTANTIATE_TEST_SUITE_P(Points, CheckpointBackgroundFailure,
                         testing::Values(Failure{"after_create", 0}, Failure{"after_copy", 3},
                                         Failure{"during_data", 2}, Failure{"after_data", 1},
                                         Failure{"before_manifest", 0},
                                         Failure{"after_manifest", 0}, Failure{"before_rename", 0}),
                         [](const auto& instance) { return std::string(instance.param.point); });

// The checkpoint is complete, although its new name may not have reached the disk.
TEST(CheckpointBackgroundError, FailureAfterRenameReportsCompleteCheckpoint) {
  for (const bool background : {true, false}) {
    for (const int64_t replaced : {0, 1}) {
      TestFolder run;
      const fs::path folder = checkpoints_folder(run.path());
      save_on_threads(run.path(), 1, 2, 1);
      const int64_t step = 2 - replaced;
      std::vector<std::string> errors(4);
      run_thread_ranks(4, [&](Communicator& world) {
        const RankTensors own = rank_tensors(test_model(), world.rank(), 4, 20);
        SaveRequest request = request_for(run.path(), step, own);
        request.keep = 1;
        if (world.rank() == 0) request.observer = throw_at("after_rename");
        errors[static_cast<size_t>(world.rank())] = error_of([&] {
          if (!background) save_checkpoint(request, world);
          BackgroundSave save(world);
          save.begin(request);
          poll_until_saved(save);
        });
      });
      EXPECT_THAT(errors, Each(errors[0]));
      EXPECT_THAT(errors[0], AllOf(HasSubstr((folder / step_name(step)).string() +
                                             " is complete and has its final name, but a later "
                                             "step of saving failed: rank 0 of 4: failed"),
                                   HasSubstr("checkpoints of other steps are unchanged")));
      EXPECT_TRUE(verify_checkpoint(folder / step_name(step)).whole());
      expect_piece(folder / step_name(step), 0, 1, 20);
      EXPECT_TRUE(verify_checkpoint(folder / step_name(1)).whole());
      save_on_threads(run.path(), 3, 2, 1);  // cleans up
      EXPECT_THAT(hidden_folders(folder), IsEmpty());
    }
  }
}

// A folder in which something is mounted cannot be deleted.
TEST(CheckpointBackgroundError, WarnsWhenReplacedCheckpointCannotBeDeleted) {
  TestFolder run;
  const fs::path folder = checkpoints_folder(run.path());
  save_alone(run.path(), 1, 10);
  const std::string text = text_from_child([&]() -> std::string {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return "not mounted";
    }
    const SavedCheckpoint saved = save_alone(run.path(), 1, 20, 0, [&](const char* point) {
      if (point != std::string("after_rename")) return;
      const fs::path busy = hidden_folders(folder).at(0).path / "busy";
      fs::create_directory(busy);
      require(mount("none", busy.c_str(), "tmpfs", 0, "size=4k") == 0, "not mounted");
    });
    return saved.warnings.size() == 1 ? saved.warnings[0] : "another number of warnings";
  });
  if (text == "not mounted") GTEST_SKIP() << "only root can mount";
  EXPECT_THAT(text, AllOf(HasSubstr("cannot delete"), HasSubstr("Device or resource busy")));
  expect_piece(folder / step_name(1), 0, 1, 20);
}

TEST(CheckpointBackgroundError, ReportsAnyException) {
  TestFolder run;
  const RankTensors own = rank_tensors(test_model(), 0, 1);
  const auto self = make_self_communicator();
  BackgroundSave save(*self);
  SaveRequest request = request_for(run.path(), 1, own);
  request.observer = [](const char* point) {
    if (point == std::string("after_data")) throw std::bad_alloc();
  };
  save.begin(request);
  EXPECT_THAT(error_of([&] { save.finish(); }),
              HasSubstr("the checkpoint of step 1 was not saved: the host has too little memory"));
  EXPECT_THAT(names_in(checkpoints_folder(run.path())), IsEmpty());
}

// The save object is destroyed, as when another error ends the run.
TEST(CheckpointBackgroundError, UnfinishedSaveLeavesNoCheckpoint) {
  TestFolder run;
  save_alone(run.path(), 1);
  const RankTensors own = rank_tensors(test_model(), 0, 1);
  const auto self = make_self_communicator();
  {
    Gate gate("during_data");
    SaveRequest request = request_for(run.path(), 2, own);
    request.observer = gate.observer();
    BackgroundSave save(*self);
    save.begin(request);
    gate.wait_until_reached();
    gate.open();
  }
  EXPECT_EQ(newest_intact_checkpoint(run.path(), {})->filename(), step_name(1));
  save_alone(run.path(), 3);
  EXPECT_THAT(names_in(checkpoints_folder(run.path())),
              ElementsAre("step_00000001", "step_00000003"));
}

TEST(CheckpointBackgroundError, LeavesNothingWhenRanksDisagree) {
  TestFolder run;
  std::vector<std::string> errors(2);
  run_thread_ranks(2, [&](Communicator& world) {
    auto model = test_model();
    if (world.rank() == 1) model[0].shape = {8, 5};
    const RankTensors own = rank_tensors(model, world.rank(), 2);
    BackgroundSave save(world);
    save.begin(request_for(run.path(), 1, own));
    errors[static_cast<size_t>(world.rank())] = error_of([&] { save.finish(); });
    EXPECT_FALSE(save.pending());
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("was not saved: "), HasSubstr("embed.weight"))));
  EXPECT_THAT(names_in(checkpoints_folder(run.path())), IsEmpty());
}

}  // namespace
}  // namespace tessera
