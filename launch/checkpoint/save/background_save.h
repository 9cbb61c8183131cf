#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/threads/background_thread.h"
#include "launch/checkpoint/save/save.h"
#include "launch/checkpoint/save/save_steps.h"
#include "launch/checkpoint/save/slice_copies.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Saves checkpoints as save_checkpoint() does, one at a time, while its caller goes on: begin()
/// returns when this rank's slices are copied, and a thread of its own writes them. That thread
/// never communicates. When all ranks have written and synced, which they tell each other in
/// poll(), rank 0's thread publishes. Whatever kills the processes meanwhile leaves what a
/// save_checkpoint() that was killed leaves.
class BackgroundSave {
 public:
  using Clock = std::chrono::steady_clock;

  /// `world` must outlive it.
  explicit BackgroundSave(Communicator& world) : world_(world) {}
  /// What is being written is given up; what is being published is finished. It waits for that
  /// alone: a save is good for sure only when finish() says so.
  ~BackgroundSave() { given_up_ = true; }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Takes the memory for copies of so many bytes of tensors on `from`, before anything is saved: a
  /// run that does not get it ends before its first step, and no step waits for its pages.
  void reserve(size_t bytes, Device from);

  /// Plans, makes the folder and copies. None may be pending. The tensors may change when it has
  /// returned. `since` is when steps began to wait for it. Collective; throws as save_checkpoint().
  void begin(const SaveRequest& request, Clock::time_point since = Clock::now());

  /// Whether a save was begun of which nothing has said yet how it ended. The same on all ranks.
  bool pending() const { return steps_ != nullptr; }

  /// What was saved, if that is done. While it is not, an all-reduce of two numbers is all that
  /// this costs. If a rank has failed, all throw the same SharedError when all have stopped; what
  /// was written is deleted, earlier checkpoints are as they were, and nothing is pending.
  /// Collective.
  std::optional<SavedCheckpoint> poll();

  /// As poll(), but waits until it is done. What it waits counts as waited for.
  SavedCheckpoint finish();

  /// Host memory of the copies, which stays for the next save.
  size_t copy_bytes() const { return copies_.bytes(); }

 private:
  enum class Stage : uint8_t { writing, publishing };

  void start(std::function<void()> job);
  /// Waits for this rank's job, and goes on to the next stage with all; the checkpoint after the
  /// last.
  std::optional<SavedCheckpoint> advance();
  void wait_for_all();
  void begin_to_publish();
  [[noreturn]] void fail_together(const SharedError& error);

  Communicator& world_;
  SliceCopies copies_;
  std::unique_ptr<SaveSteps> steps_;  // null: none is pending
  Stage stage_ = Stage::writing;
  double seconds_ = 0.0;             // that steps waited
  double background_seconds_ = 0.0;  // of the stages before, on the slowest rank
  // Of the job. It is over, or was waited for, when the owner's thread reads them.
  double job_seconds_ = 0.0;
  std::string written_;
  std::vector<std::string> written_of_rank_;
  std::atomic<bool> given_up_ = false;
  BackgroundThread thread_;  // the last: it ends before what it works on
};

}  // namespace tessera
