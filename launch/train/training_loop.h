#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/exit_code.h"
#include "launch/config/run_config.h"
#include "launch/config/write_config.h"
#include "launch/logging/console.h"
#include "launch/logging/metrics_log.h"
#include "launch/logging/step_timeline.h"
#include "launch/metrics/picture.h"
#include "launch/train/diagnosis/divergence_watch.h"
#include "launch/train/run_setup.h"
#include "launch/train/start/run_lock.h"
#include "launch/train/start/stop_signal.h"
#include "launch/train/straggler_watch.h"
#include "launch/train/timed_saves.h"
#include "launch/train/trainer.h"
#include "launch/train/walltime_limit.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

/// Whether a stop left out the evaluation or the samples of the trainer's last step.
bool owes_evaluation(const RunConfig& config, const Trainer& trainer);
bool owes_samples(const RunConfig& config, const Trainer& trainer);

/// Attention that a run logs.
struct AttentionOfRun {
  Json report;  ///< AttentionReport
  std::vector<Picture> pictures;
};

/// Functions of layers above training that a run calls for its log, and its clock.
struct RunHooks {
  /// For log.report_interval: writes a page about a run, the folder, on rank 0. The page reloads
  /// itself if the run `goes_on`.
  std::function<void(const std::filesystem::path& run, bool goes_on)> write_report = {};
  /// For log.attention_interval. Collective over model.tp().
  std::function<AttentionOfRun(QueriedModel& model, const Tokenizer& tokenizer,
                               const Sample& sample)>
      look_at_attention = {};
  /// The clock of checkpoint.interval: auto.
  std::function<TimedSaves::Clock::time_point()> now = TimedSaves::Clock::now;
};

/// The loop of a run on one rank, from the trainer's first step to `last_step`: after each step its
/// line in the log, and then whatever is due, in the order of make_events().
class TrainingLoop {
 public:
  /// Writes RUN/config.yaml and opens RUN/metrics.jsonl on rank 0, and reports which keys changed
  /// since the run's last start. `lock` is that of run.dir, on rank 0. The references must outlive
  /// this. Collective.
  TrainingLoop(RunSetup& run, int64_t last_step, Communicator& world, Console& console,
               std::optional<RunLock>& lock, const RunHooks& hooks);

  /// Makes up for what a stop left out, runs the steps and returns why they end. Before rethrowing
  /// an error that all ranks share, it lets a background save finish.
  ExitCode run();

 private:
  /// What may follow a step.
  struct Event {
    std::function<bool()> is_due;
    std::function<void()> run;
    bool is_made_up = false;  ///< if a stop left it out
  };
  std::vector<Event> make_events();

  ExitCode run_and_roll_back();
  ExitCode run_steps(StopSignal& signal);
  /// Whether no step is left, or eval.patience is over.
  bool ends() const;
  /// After a step that may not be skipped: continues from the newest checkpoint with the samples
  /// after that step, and saves it again. Throws `error`, with the reason, if that is not possible.
  /// Collective.
  void roll_back(const SharedError& error);
  void require_metrics();
  /// Whether to save, or to end the run, after this step. Collective.
  StopReason stop_reason(StopSignal& signal);
  /// Says why the run ends before its last step, and returns the exit code.
  ExitCode report_stop(StopReason reason);
  void take_step();
  void report_changed_keys();
  /// Logs the step if it is due. All ranks fetch the result if they `need` it, if a line is due, or
  /// if fetching it costs nothing; otherwise only a rank whose progress bar is due does.
  void log_step(bool needed);
  /// Says once that metrics.jsonl cannot be written, and once that it can be again.
  void check_metrics();
  void log_result(const StepResult& result, bool line_is_due);
  void evaluate();
  void write_samples();
  void write_histograms();
  /// Logs pictures, and writes RUN/attention.json for the report.
  void write_attention();
  void write_report(bool run_goes_on);
  /// Calls `write` on rank 0. A file in the run's folder that cannot be written is a warning, once.
  void write_page(const char* name, const std::function<void()>& write);
  void write_timeline(bool run_ends);
  /// Whether eval.patience evaluations in a row were no better than the best before them.
  bool patience_is_over() const;
  /// Makes run.dir again if it was removed. Throws if another folder is in its place. Collective.
  void keep_run_folder();
  void open_run_folder();
  void open_metrics();
  enum class SaveKind : uint8_t { by_steps, by_time, last };
  /// Saves in the background unless the run ends, when no steps are left to overlap with.
  void save(SaveKind kind);
  /// Whether a copy leaves as much memory again on each host. Collective.
  bool has_memory_for_copy() const;
  /// Rethrows the error of a save by time, unless training can do without the checkpoint.
  void leave_out_save(const SharedError& error);
  /// If run.dir was removed during the save, begins another one.
  void poll_save();
  void finish_earlier_save(SaveKind next);
  /// Whether run.dir was removed. Collective.
  bool folder_is_gone();
  void finish_save();
  void finish_save_after_error();
  void log_saved(const SavedCheckpoint& saved);

  const RunConfig& config_;
  const KeyOrigins& origins_;
  Communicator& world_;
  Trainer& trainer_;
  Console& console_;
  const int64_t last_step_;
  const std::vector<Event> events_;
  std::optional<RunLock>& lock_;  // on rank 0
  const RunHooks& hooks_;
  std::set<std::string> page_warnings_;  // files that have had one
  std::unique_ptr<MetricsLog> metrics_;  // on rank 0
  StepTimeline timeline_;
  StepClock clock_;
  WalltimeLimit walltime_;
  DivergenceWatch divergence_;
  TimedSaves timed_saves_;
  SaveKind pending_save_ = SaveKind::by_steps;  // while trainer_.saving()
  std::optional<int64_t> saved_step_;
  bool is_saved_;              // whether a checkpoint has all that the trainer knows
  bool time_to_save_ = false;  // checkpoint.interval: auto
  StragglerWatch stragglers_;  // on CPUs; the host does not wait for collectives on GPUs
  bool is_first_ = true;
  bool metrics_wait_ = false;  // for room on the disk
};

}  // namespace tessera
