#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "launch/checkpoint/find.h"
#include "launch/checkpoint/save/publish.h"
#include "launch/checkpoint/verify.h"
#include "tests/launch/checkpoint/faults.h"
#include "tests/launch/checkpoint/fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const char* const kPoints[] = {"after_create",    "during_data",    "after_data",
                               "before_manifest", "after_manifest", "before_rename",
                               "after_rename",    "during_prune",   "after_prune"};

TEST(CheckpointCrash, RecoversFromKilledSave) {
  for (const std::string point : kPoints) {
    TestFolder run;
    save_alone(run.path(), 1);
    save_alone(run.path(), 2);
    const int status = run_in_child([&] { save_alone(run.path(), 3, 0, 2, kill_at(point)); });
    ASSERT_TRUE(WIFSIGNALED(status)) << point;
    const auto newest = newest_intact_checkpoint(run.path(), {});
    ASSERT_TRUE(newest.has_value()) << point;
    EXPECT_EQ(newest->filename(), step_name(is_published(point) ? 3 : 2)) << point;
    expect_piece(*newest, 0, 1);
    for (const StepFolder& folder : step_folders(checkpoints_folder(run.path()))) {
      EXPECT_TRUE(verify_checkpoint(folder.path).whole()) << point << folder.path;
    }
    EXPECT_THAT(save_alone(run.path(), 4, 0, 1).warnings, IsEmpty());
    EXPECT_THAT(names_in(checkpoints_folder(run.path())), ElementsAre("step_00000004")) << point;
  }
}

TEST(CheckpointCrash, KilledReplacementLeavesOldOrNewCheckpoint) {
  for (const std::string point : kPoints) {
    TestFolder run;
    save_alone(run.path(), 1, 10);
    run_in_child([&] { save_alone(run.path(), 1, 20, 0, kill_at(point)); });
    const auto newest = newest_intact_checkpoint(run.path(), {});
    ASSERT_TRUE(newest.has_value()) << point;
    const bool is_new = is_published(point);
    expect_piece(*newest, 0, 1, is_new ? 20 : 10);
    save_alone(run.path(), 1, 30);
    expect_piece(checkpoints_folder(run.path()) / step_name(1), 0, 1, 30);
    EXPECT_THAT(names_in(checkpoints_folder(run.path())), ElementsAre("step_00000001")) << point;
  }
}

// If folders cannot be exchanged atomically, the old one is hidden for a moment.
TEST(CheckpointCrash, RestoresCheckpointDuringTwoStepReplacement) {
  TestFolder run;
  const fs::path folder = checkpoints_folder(run.path());
  const auto prepare = [&] {
    save_alone(run.path(), 1, 20);
    HiddenFolder hidden{1, HiddenKind::temporary,
                        folder / hidden_name(1, HiddenKind::temporary, "ab")};
    fs::rename(folder / step_name(1), hidden.path);
    save_on_threads(run.path() / "other", 1, 1, 1, 10);
    fs::rename(run.path() / "other" / "checkpoints" / step_name(1), folder / step_name(1));
    return hidden;
  };
  const HiddenFolder hidden = prepare();
  run_in_child([&] { name_checkpoint(hidden, "ab", kill_at("during_swap"), false); });
  EXPECT_THAT(names_in(folder),
              ElementsAre(".step_00000001.replaced-ab", ".step_00000001.temporary-ab"));
  const auto found = newest_intact_checkpoint(run.path(), {});
  ASSERT_TRUE(found.has_value());
  expect_piece(*found, 0, 1, 10);
  EXPECT_THAT(clean_up_after_dead_saves(folder), IsEmpty());
  EXPECT_THAT(names_in(folder), ElementsAre("step_00000001"));
  expect_piece(folder / step_name(1), 0, 1, 10);

  fs::remove_all(folder);
  const HiddenFolder again = prepare();
  EXPECT_THROW(name_checkpoint(again, "ab", throw_at("during_swap"), false), Error);
  expect_piece(folder / step_name(1), 0, 1, 10);
  EXPECT_EQ(name_checkpoint(again, "ab", {}, false), folder / ".step_00000001.replaced-ab");
  EXPECT_THAT(names_in(folder), ElementsAre(".step_00000001.replaced-ab", "step_00000001"));
  expect_piece(folder / step_name(1), 0, 1, 20);
}

TEST(CheckpointCrash, KilledRanksLeaveEarlierCheckpoint) {
  for (const std::string point : {"during_data", "after_data", "before_rename"}) {
    TestFolder run;
    save_on_threads(run.path(), 1, 2, 1);
    const int status = run_in_child([&] {
      run_thread_ranks(4, [&](Communicator& world) {
        const RankTensors own = rank_tensors(test_model(), world.rank(), 2, 0, 2);
        SaveRequest request = request_for(run.path(), 2, own);
        if (world.rank() == 3 || point == "before_rename") request.observer = kill_at(point);
        save_checkpoint(request, world);
      });
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << point;
    EXPECT_EQ(newest_intact_checkpoint(run.path(), {})->filename(), step_name(1)) << point;
  }
}

TEST(CheckpointCrash, FailureOnOneRankThrowsSameErrorOnAllRanks) {
  for (const std::string point :
       {"during_data", "after_data", "before_manifest", "before_rename"}) {
    TestFolder run;
    save_on_threads(run.path(), 1, 2, 1);
    std::vector<std::string> errors(4);
    const int failing = point == "during_data" || point == "after_data" ? 2 : 0;
    run_thread_ranks(4, [&](Communicator& world) {
      const RankTensors own = rank_tensors(test_model(), world.rank(), 4);
      SaveRequest request = request_for(run.path(), 2, own);
      if (world.rank() == failing) request.observer = throw_at(point);
      errors[static_cast<size_t>(world.rank())] =
          error_of([&] { save_checkpoint(request, world); });
    });
    for (const std::string& error : errors) {
      EXPECT_EQ(error, errors[0]);
      EXPECT_THAT(error, AllOf(HasSubstr("the checkpoint of step 2 was not saved"),
                               HasSubstr("failed at " + point)));
    }
    EXPECT_THAT(names_in(checkpoints_folder(run.path())), ElementsAre("step_00000001")) << point;
    EXPECT_TRUE(verify_checkpoint(checkpoints_folder(run.path()) / step_name(1)).whole());
  }
}

// Saves step 2. Returns the message of its Error, the names in the run's folder, and the newest
// intact checkpoint.
std::string failing_save(const fs::path& run_dir) {
  std::string text = error_of([&] { save_alone(run_dir, 2); }) + " | ";
  for (const std::string& name : names_in(checkpoints_folder(run_dir))) text += name + " ";
  const auto newest = newest_intact_checkpoint(run_dir, {});
  return text + "| newest " + (newest ? newest->filename().string() : "none");
}

// With a file size limit, write() fails partway, as on a full disk.
TEST(CheckpointCrash, FailedWriteNamesFileAndReason) {
  TestFolder run;
  save_alone(run.path(), 1);
  for (const rlim_t bytes : {200, 1000}) {
    const std::string text = text_from_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      return failing_save(run.path());
    });
    EXPECT_THAT(text, HasSubstr("the checkpoint of step 2 was not saved: cannot write"));
    EXPECT_THAT(text, HasSubstr(bytes == 200 ? "/model_00000.safetensors: File too large"
                                             : "/manifest.json: File too large"));
    EXPECT_THAT(text, HasSubstr("(earlier checkpoints are unchanged) | step_00000001 | newest "
                                "step_00000001"));
  }
}

TEST(CheckpointCrash, FullDiskKeepsEarlierCheckpoint) {
  TestFolder run;
  const std::string text = text_from_child([&]() -> std::string {
    const bool mounted = unshare(CLONE_NEWNS) == 0 &&
                         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("none", run.path().c_str(), "tmpfs", 0, "size=20k") == 0;
    if (!mounted) return "not mounted";
    save_alone(run.path(), 1);
    return failing_save(run.path());
  });
  if (text == "not mounted") GTEST_SKIP() << "only root can mount a small disk";
  EXPECT_THAT(text, AllOf(HasSubstr("No space left on device"),
                          HasSubstr("| step_00000001 | newest step_00000001")));
}

TEST(CheckpointCrash, NamesFolderThatCannotBeCreated) {
  TestFolder run;
  write_text(run.path() / "checkpoints", "in the way");
  EXPECT_THAT(error_of([&] { save_alone(run.path(), 1); }),
              AllOf(HasSubstr((run.path() / "checkpoints").string()), HasSubstr("cannot")));
}

TEST(CheckpointPrune, KeepsNewestIntactCheckpoints) {
  TestFolder run;
  const fs::path folder = checkpoints_folder(run.path());
  for (const int64_t step : {1, 2, 3, 4, 9}) save_alone(run.path(), step);
  fs::resize_file(folder / step_name(4) / "model_00000.safetensors", 10);
  fs::create_directory(folder / "step_1");
  fs::create_directory(folder / ".step_00000001.other");
  fs::create_directory(folder / hidden_name(7, HiddenKind::temporary, "0123"));
  save_alone(run.path(), 5, 0, 2);
  // 5 and 3 are intact. 9 comes from before the run was resumed at an earlier step.
  EXPECT_THAT(names_in(folder),
              ElementsAre(".step_00000001.other", "step_00000003", "step_00000004", "step_00000005",
                          "step_00000009", "step_1"));
}

}  // namespace
}  // namespace tessera
