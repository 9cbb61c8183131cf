#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "launch/checkpoint/find.h"
#include "launch/checkpoint/save/background_save.h"
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

/// Saves the test model in the background on four tensor ranks, while its tensors change.
void save_in_background(const fs::path& run_dir, int64_t step, int64_t version, int keep,
                        int watched_rank = 0, const SaveObserver& observer = {}) {
  run_thread_ranks(4, [&](Communicator& world) {
    const RankTensors own = rank_tensors(test_model(), world.rank(), 4, version);
    SaveRequest request = request_for(run_dir, step, own);
    request.keep = keep;
    if (world.rank() == watched_rank) request.observer = observer;
    BackgroundSave save(world);
    save.begin(request);
    for (const LocalTensor& tensor : own.tensors) {
      if (tensor.data.numel() > 0) set_value(tensor.data, 0, 1);
    }
    while (!save.poll()) sched_yield();
  });
}

struct Death {
  const char* point;
  int rank;
};

const Death kDeaths[] = {{"after_create", 0},  {"after_copy", 1},      {"during_data", 3},
                         {"after_data", 2},    {"before_manifest", 0}, {"after_manifest", 0},
                         {"before_rename", 0}, {"after_rename", 0},    {"during_prune", 0},
                         {"after_prune", 0}};

TEST(CheckpointBackgroundCrash, RecoversFromKilledSave) {
  for (const auto& [point, rank] : kDeaths) {
    SCOPED_TRACE(point);
    TestFolder run;
    const fs::path folder = checkpoints_folder(run.path());
    save_on_threads(run.path(), 1, 2, 1);
    save_on_threads(run.path(), 2, 2, 1, 20);
    const int status = run_in_child(
        [&, rank = rank] { save_in_background(run.path(), 3, 30, 2, rank, kill_at(point)); });
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto newest = newest_intact_checkpoint(run.path(), {});
    ASSERT_TRUE(newest.has_value());
    const bool is_new = is_published(point);
    EXPECT_EQ(newest->filename(), step_name(is_new ? 3 : 2));
    expect_piece(*newest, 0, 1, is_new ? 30 : 20);
    for (const StepFolder& step : step_folders(folder)) {
      EXPECT_TRUE(verify_checkpoint(step.path).whole()) << step.path;
    }
    save_in_background(run.path(), 4, 40, 1);
    EXPECT_THAT(names_in(folder), ElementsAre("step_00000004"));
    expect_piece(folder / step_name(4), 0, 1, 40);
  }
}

TEST(CheckpointBackgroundCrash, KilledReplacementLeavesOldOrNewCheckpoint) {
  for (const auto& [point, rank] : kDeaths) {
    SCOPED_TRACE(point);
    TestFolder run;
    save_on_threads(run.path(), 1, 2, 1, 10);
    run_in_child(
        [&, rank = rank] { save_in_background(run.path(), 1, 20, 0, rank, kill_at(point)); });
    const auto newest = newest_intact_checkpoint(run.path(), {});
    ASSERT_TRUE(newest.has_value());
    expect_piece(*newest, 0, 1, is_published(point) ? 20 : 10);
  }
}

/// Saves step 2 in the background. Returns the message of its Error, the names in the folder, and
/// whether step 1 is intact.
std::string failing_save(const fs::path& run_dir) {
  std::string text = error_of([&] { save_in_background(run_dir, 2, 20, 0); }) + " | ";
  for (const std::string& name : names_in(checkpoints_folder(run_dir))) text += name + " ";
  return text + (verify_checkpoint(checkpoints_folder(run_dir) / step_name(1)).whole()
                     ? "| whole"
                     : "| damaged");
}

// With a file size limit, write() fails partway, as on a full disk.
TEST(CheckpointBackgroundCrash, FailedWriteNamesFileAndReason) {
  TestFolder run;
  save_on_threads(run.path(), 1, 2, 1);
  for (const rlim_t bytes : {200, 1500}) {
    const std::string text = text_from_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      return failing_save(run.path());
    });
    EXPECT_THAT(text, AllOf(HasSubstr("the checkpoint of step 2 was not saved: "),
                            HasSubstr("cannot write"), HasSubstr(": File too large"),
                            HasSubstr(bytes == 200 ? ".safetensors" : "/manifest.json"),
                            HasSubstr("unchanged) | step_00000001 | whole")));
  }
}

TEST(CheckpointBackgroundCrash, FullDiskKeepsEarlierCheckpoint) {
  TestFolder run;
  const std::string text = text_from_child([&]() -> std::string {
    const bool mounted = unshare(CLONE_NEWNS) == 0 &&
                         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("none", run.path().c_str(), "tmpfs", 0, "size=48k") == 0;
    if (!mounted) return "not mounted";
    save_on_threads(run.path(), 1, 4, 1);
    return failing_save(run.path());
  });
  if (text == "not mounted") GTEST_SKIP() << "only root can mount a small disk";
  EXPECT_THAT(text,
              AllOf(HasSubstr("No space left on device"), HasSubstr("| step_00000001 | whole")));
}

// Somebody deletes the folder before the files are written.
TEST(CheckpointBackgroundCrash, ReportsRemovedFolder) {
  TestFolder run;
  const fs::path folder = checkpoints_folder(run.path());
  const std::string error = error_of([&] {
    save_in_background(run.path(), 1, 0, 0, 0, [&](const char* point) {
      if (point == std::string("after_copy")) fs::remove_all(folder);
    });
  });
  EXPECT_THAT(error, AllOf(HasSubstr("the checkpoint of step 1 was not saved: "),
                           HasSubstr("No such file or directory")));
}

}  // namespace
}  // namespace tessera
