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
#include "launch/train/evaluation_history.h"
#include "launch/train/start/run_lock.h"
#include "launch/train/start/stop_signal.h"
#include "launch/train/straggler_watch.h"
#include "launch/train/timed_saves.h"
#include "launch/train/trainer.h"
#include "launch/train/walltime_limit.h"
#include "parallel/communicators/communicator.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

/// Whether the evaluation after `step`, from which the run starts, is missing in `history`: the run
/// was ended after saving the step and before evaluating.
bool owes_evaluation(const RunConfig& config, int64_t step, const EvaluationHistory& history);

/// Whether the samples of eval.prompts after `step` are missing in RUN/samples.jsonl, which rank 0
/// reads. Collective.
bool owes_samples(const RunConfig& config, int64_t step, Communicator& world);

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

/// The loop of a run on one rank, from the trainer's first step to `last_step`: steps, and between
/// them logging, checkpoints, evaluations and samples when they are due.
class TrainingLoop {
 public:
  /// Writes RUN/config.yaml, with the `origins` of derived keys, and opens RUN/metrics.jsonl on
  /// rank 0, and reports which keys changed since the run's last start. `peak_flops` is the peak of
  /// all ranks together, in FLOP/s, if known. `lock` is that of run.dir, on rank 0. The
  /// references must outlive this. Collective.
  TrainingLoop(const RunConfig& config, const KeyOrigins& origins, int64_t last_step,
               Communicator& world, Trainer& trainer, Console& console,
               std::optional<double> peak_flops, std::optional<RunLock>& lock,
               const RunHooks& hooks);

  /// Evaluates first if the run owes that, then runs the steps and returns why they end. Before
  /// rethrowing an error that all ranks share, it lets a background save finish.
  ExitCode run();

 private:
  ExitCode run_steps();
  ExitCode run_steps_until_failure(StopSignal& signal);
  /// After a step that may not be skipped: continues from the newest checkpoint with the samples
  /// after that step, and saves it again. Throws `error`, with the reason, if that is not possible.
  /// Collective.
  void roll_back(const SharedError& error);
  void require_metrics();
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
  /// Whether eval.patience evaluations in a row were no better than the best before them.
  bool patience_is_over() const;
  /// Saves, unless this step was saved, and says why the run ends.
  void end_early();
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
  int64_t last_step_;
  std::optional<RunLock>& lock_;  // on rank 0
  const RunHooks& hooks_;
  std::set<std::string> page_warnings_;  // files that have had one
  std::unique_ptr<MetricsLog> metrics_;  // on rank 0
  EvaluationHistory history_;
  StepTimeline timeline_;
  StepClock clock_;
  WalltimeLimit walltime_;
  DivergenceWatch divergence_;
  TimedSaves timed_saves_;
  SaveKind pending_save_ = SaveKind::by_steps;  // while trainer_.saving()
  std::optional<int64_t> saved_step_;
  StragglerWatch stragglers_;  // on CPUs; the host does not wait for collectives on GPUs
  bool is_first_ = true;
  bool metrics_wait_ = false;  // for room on the disk
};

}  // namespace tessera
