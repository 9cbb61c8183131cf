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

/// Saves checkpoints like save_checkpoint(), one at a time, while its caller continues. begin()
/// returns once this rank's slices are copied; a separate thread writes them and never
/// communicates. When all ranks have written and synced, which they find out in poll(), rank 0's
/// thread publishes. If the processes are killed meanwhile, the folder is in a state that a killed
/// save_checkpoint() could leave.
class BackgroundSave {
 public:
  using Clock = std::chrono::steady_clock;

  /// `world` must outlive this.
  explicit BackgroundSave(Communicator& world) : world_(world) {}
  /// Aborts a write, but waits for a publish to finish. Only finish() confirms a save.
  ~BackgroundSave() { aborted_ = true; }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Allocates memory for copies of `bytes` bytes of tensors on `from`, before anything is saved. A
  /// run without enough memory then fails before its first step, and no step waits for page faults.
  void reserve(size_t bytes, Device from);

  /// Creates the folder and copies the slices. No save may be pending. The tensors
  /// may change after it returns. `since` is when steps began to wait for it. Throws like
  /// save_checkpoint(). Collective.
  void begin(const SaveRequest& request, Clock::time_point since = Clock::now());

  /// Whether a save has begun whose end has not been reported yet. The same on all ranks.
  bool pending() const { return steps_ != nullptr; }

  /// Returns the checkpoint once it is saved. Until then it costs only an all-reduce of two
  /// numbers. If a rank fails, all throw the same SharedError after all have stopped; the written
  /// files are deleted, earlier checkpoints are unchanged, and nothing is pending. Collective.
  std::optional<SavedCheckpoint> poll();

  /// Like poll(), but waits until the save is done. The wait counts as training time lost.
  SavedCheckpoint finish();

  /// Host memory of the copies, which is kept for the next save.
  size_t copy_bytes() const { return copies_.bytes(); }

 private:
  enum class Stage : uint8_t { writing, publishing };

  void start(std::function<void()> job);
  /// Waits for this rank's job and starts the next stage with all ranks; returns the checkpoint
  /// after the last stage.
  std::optional<SavedCheckpoint> advance();
  void wait_for_all();
  void begin_to_publish();
  [[noreturn]] void fail_together(const SharedError& error);

  Communicator& world_;
  SliceCopies copies_;
  std::unique_ptr<SaveSteps> steps_;  // null if no save is pending
  Stage stage_ = Stage::writing;
  double seconds_ = 0.0;             // time that steps waited
  double background_seconds_ = 0.0;  // of earlier stages, on the slowest rank
  // Results of the job, read by the owner's thread only after the job has ended.
  double job_seconds_ = 0.0;
  std::string written_;
  std::vector<std::string> written_of_rank_;  // on rank 0
  std::atomic<bool> aborted_ = false;
  BackgroundThread thread_;  // last member: joined before its data is destroyed
};

}  // namespace tessera
