#include "launch/train/training_loop.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/exit_code.h"
#include "core/trace/flight_recorder.h"
#include "core/trace/trace.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/find.h"
#include "launch/config/config_changes.h"
#include "launch/config/load_config.h"
#include "launch/support/command_text.h"
#include "launch/support/files/known_mappings.h"
#include "launch/support/files/whole_files.h"
#include "launch/train/start/start.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_memory.h"

namespace tessera {
namespace {

bool is_due(int64_t interval, int64_t step) { return interval > 0 && step % interval == 0; }

/// Whether an event is due that was done after step `last`. It is also due after the last step of
/// the whole run. A start that stops before adds none, so that eval.patience and the best
/// checkpoint do not depend on stops.
bool owes(int64_t interval, std::optional<int64_t> last, const RunConfig& config,
          const Trainer& trainer) {
  const int64_t step = trainer.steps_done();
  if (step == 0 || step > config.train.steps || last == step) return false;
  return is_due(interval, step) || (interval > 0 && step == config.train.steps);
}

}  // namespace

bool owes_evaluation(const RunConfig& config, const Trainer& trainer) {
  return owes(config.eval.interval, trainer.run().evaluated_step, config, trainer);
}

bool owes_samples(const RunConfig& config, const Trainer& trainer) {
  return owes(config.eval.sample_interval, trainer.run().sampled_step, config, trainer);
}

TrainingLoop::TrainingLoop(RunSetup& run, int64_t last_step, Communicator& world, Console& console,
                           std::optional<RunLock>& lock, const RunHooks& hooks)
    : config_(run.inputs.config),
      origins_(run.inputs.origins),
      world_(world),
      trainer_(*run.trainer),
      console_(console),
      last_step_(last_step),
      events_(make_events()),
      lock_(lock),
      hooks_(hooks),
      timeline_(config_, world),
      clock_(run.peak.flops),
      walltime_(walltime_end(config_.run, config_.automatic.contains("run.walltime")),
                assumed_save_seconds(trainer_.memory().global_parameters)),
      timed_saves_(saves_by_time(config_),
                   assumed_save_seconds(trainer_.memory().global_parameters), hooks.now()),
      is_saved_(trainer_.steps_done() > 0) {
  if (is_saved_) saved_step_ = trainer_.steps_done();
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    if (is_saved_) report_changed_keys();
    with_exit_code(ExitCode::output, [&] { open_run_folder(); });
  });
}

// The order in which they run. Evaluations and samples come before the save, so that its checkpoint
// knows of them, and the report last, so that it shows everything.
std::vector<TrainingLoop::Event> TrainingLoop::make_events() {
  const auto every = [this](int64_t interval) {
    return [this, interval] { return is_due(interval, trainer_.steps_done()); };
  };
  const auto samples_are_due = [this] {
    const int64_t step = trainer_.steps_done();
    return owes_samples(config_, trainer_) ||
           (config_.eval.sample_interval > 0 && patience_is_over() &&
            trainer_.run().sampled_step != step);
  };
  return {
      {every(config_.train.check_replicas_interval), [this] { trainer_.check_replicas(); }},
      {[this] { return timeline_.is_whole(); }, [this] { write_timeline(/*run_ends=*/false); }},
      {every(config_.log.histogram_interval), [this] { write_histograms(); }},
      {every(config_.log.attention_interval), [this] { write_attention(); }},
      {[this] { return owes_evaluation(config_, trainer_); }, [this] { evaluate(); }, true},
      {samples_are_due, [this] { write_samples(); }, true},
      {[this, by_steps = every(config_.checkpoint.interval)] {
         return !ends() && (time_to_save_ || by_steps());
       },
       [this] { save(time_to_save_ ? SaveKind::by_time : SaveKind::by_steps); }},
      {every(config_.log.report_interval), [this] { write_report(/*run_goes_on=*/true); }},
  };
}

void TrainingLoop::open_run_folder() {
  write_run_config(config_, origins_);
  open_metrics();
}

void TrainingLoop::open_metrics() {
  std::optional<std::string> configuration;
  if (config_.log.tensorboard) configuration = to_yaml(config_, origins_);
  metrics_ = std::make_unique<MetricsLog>(config_.run.dir, trainer_.steps_done(), configuration,
                                          !config_.eval.prompts.empty());
}

// Whoever removes the folder of a running run does not mean to lose its weights, too.
void TrainingLoop::keep_run_folder() {
  all_or_none(world_, [&] {
    if (!lock_) return;
    const RunLock::Found found = lock_->find();
    if (found == RunLock::Found::other) {
      throw CodedError(
          fmt::format("run.dir {} was replaced by another folder while the run was using it, so "
                      "the checkpoint of step {} is not saved there: choose another run.dir",
                      config_.run.dir, trainer_.steps_done()),
          ExitCode::output);
    }
    if (found == RunLock::Found::locked && metrics_) return;
    metrics_ = nullptr;  // until the folder is complete, which may take several saves
    with_exit_code(ExitCode::output, [&] {
      make_run_folder(config_);
      if (found == RunLock::Found::nothing) lock_ = RunLock(config_.run.dir);
      open_run_folder();
    });
    console_.warning(fmt::format(
        "run.dir {} was removed while the run was using it. It is made again, with the checkpoint "
        "of step {}; earlier checkpoints and metrics are lost",
        config_.run.dir, trainer_.steps_done()));
  });
  all_or_none(world_, [] {
    if (FlightRecorder* recorder = FlightRecorder::current()) recorder->restore_file();
  });
}

ExitCode TrainingLoop::run() {
  try {
    const ExitCode end = run_and_roll_back();
    write_report(/*run_goes_on=*/false);
    return end;
  } catch (const SharedError& error) {
    if (metrics_ && trainer_.failed_step() != nullptr) metrics_->bad_step(*trainer_.failed_step());
    if (metrics_) metrics_->event(trainer_.steps_done(), "failed", error.what());
    finish_save_after_error();  // all ranks are here
    write_report(/*run_goes_on=*/false);
    throw;
  } catch (const std::exception& error) {
    if (world_.size() > 1) throw;  // the others may wait for this rank
    if (metrics_) metrics_->event(trainer_.steps_done(), "failed", message_of(error));
    finish_save_after_error();
    throw;
  }
}

ExitCode TrainingLoop::run_and_roll_back() {
  StopSignal signal(/*answers=*/world_.rank() == 0);
  if (FlightRecorder* recorder = FlightRecorder::current()) {
    recorder->set_phase(RunPhase::training);
  }
  for (const Event& event : events_) {
    if (event.is_made_up && event.is_due()) event.run();
  }
  for (;;) {
    try {
      return run_steps(signal);
    } catch (const SharedError& error) {
      const bool may_roll_back = trainer_.failed_step() != nullptr &&
                                 trainer_.run().rollbacks < config_.train.max_rollbacks;
      if (!may_roll_back) throw;
      roll_back(error);
    }
  }
}

ExitCode TrainingLoop::run_steps(StopSignal& signal) {
  StopReason stop = StopReason::none;
  while (!ends() && stop <= StopReason::save) {
    signal.set_steps(trainer_.steps_done(), saved_step_);
    take_step();
    stop = stop_reason(signal);
    time_to_save_ = stop == StopReason::save;
    const auto is_due = [](const Event& event) { return event.is_due(); };
    log_step(/*needed=*/ends() || stop > StopReason::save || std::ranges::any_of(events_, is_due));
    if (trainer_.saving()) poll_save();
    // After a signal there may be only a second left.
    if (stop > StopReason::save) save(SaveKind::last);
    if (stop > StopReason::save && !ends()) break;
    for (const Event& event : events_) {
      if (event.is_due()) event.run();
    }
  }
  if (!is_saved_) save(SaveKind::last);
  write_timeline(/*run_ends=*/true);
  require_metrics();
  if (!ends()) return report_stop(stop);
  if (const EvaluationHistory& found = trainer_.run().evaluations; patience_is_over()) {
    console_.line(fmt::format(
        "the run ends after step {}: the last {} evaluations were no better than that of step {} "
        "(eval.patience is {})",
        trainer_.steps_done(), found.since_best, found.best_step, config_.eval.patience));
  }
  return ExitCode::finished;
}

bool TrainingLoop::ends() const {
  return trainer_.steps_done() >= last_step_ || patience_is_over();
}

bool TrainingLoop::patience_is_over() const {
  return trainer_.run().evaluations.exhausts(config_.eval.patience);
}

StopReason TrainingLoop::stop_reason(StopSignal& signal) {
  const bool evaluates = owes_evaluation(config_, trainer_) || owes_samples(config_, trainer_);
  if (walltime_.must_end(WalltimeLimit::Clock::now(), evaluates)) {
    return signal.requested(world_, StopReason::out_of_time);
  }
  const bool is_time =
      world_.rank() == 0 && !trainer_.saving() && timed_saves_.is_due(hooks_.now());
  return signal.requested(world_, is_time ? StopReason::save : StopReason::none);
}

void TrainingLoop::roll_back(const SharedError& error) {
  const PhaseScope phase(RunPhase::saving);
  finish_save_after_error();
  const BadStep failed = *trainer_.failed_step();
  const auto newest = newest_intact_checkpoint(
      config_.run.dir, [&](const std::string& line) { console_.warning(line); }, world_,
      failed.step);
  if (!newest) {
    throw SharedError(
        fmt::format("{}. There is no checkpoint before it to go back to", error.what()),
        error.exit_code());
  }
  all_or_none(world_, [&] {
    Checkpoint checkpoint = Checkpoint::open(*newest);
    trainer_.roll_back(checkpoint);
  });
  const int64_t step = trainer_.steps_done();
  console_.warning(fmt::format(
      "{}: the run goes back to the checkpoint of step {} and leaves out the samples since then. "
      "Rollback {} of at most {} (train.max_rollbacks){}",
      failed.what, step, trainer_.run().rollbacks, config_.train.max_rollbacks,
      failed.text.empty() ? "" : ". " + failed.text));
  log_saved(trainer_.save());
  all_or_none(world_, [&] {
    if (!metrics_) return;
    open_metrics();
    metrics_->rolled_back(step, failed, trainer_.run().rollbacks);
  });
}

void TrainingLoop::require_metrics() {
  all_or_none(world_, [&] {
    if (!metrics_) return;
    const auto problem = metrics_->problem();
    if (!problem) return;
    throw CodedError(
        fmt::format("{}/metrics.jsonl lacks its last lines: {}", config_.run.dir, *problem),
        ExitCode::output);
  });
}

ExitCode TrainingLoop::report_stop(StopReason reason) {
  const int64_t step = trainer_.steps_done();
  const bool is_late = reason == StopReason::out_of_time;
  console_.line(
      is_late ? fmt::format("out of time: saved after step {}, {:.0f} s before the end of {}", step,
                            walltime_.seconds_left(WalltimeLimit::Clock::now()), walltime_.name())
              : fmt::format("asked to stop: saved after step {}", step));
  if (std::getenv(kLauncherVariable) == nullptr) {  // otherwise the launcher says it
    const std::string command = starting_command();
    console_.line("to resume: " + (command.empty() ? "start the same command again" : command));
  }
  return is_late ? ExitCode::out_of_time : ExitCode::stopped;
}

void TrainingLoop::take_step() {
  is_saved_ = false;
  const Timeline::Scope scope(timeline_.next(trainer_.steps_done() + 1));
  const TraceRange range("step");
  const FlightRecorder* recorder = FlightRecorder::current();
  if (recorder == nullptr || trainer_.results_wait()) return trainer_.step();
  const int64_t waited = recorder->waited();
  const auto start = std::chrono::steady_clock::now();
  trainer_.step();
  const std::chrono::duration<double> length = std::chrono::steady_clock::now() - start;
  stragglers_.add_step(length.count(), static_cast<double>(recorder->waited() - waited) / 1e9);
}

// This mainly reveals a forgotten --set.
void TrainingLoop::report_changed_keys() {
  const std::filesystem::path earlier = std::filesystem::path(config_.run.dir) / "config.yaml";
  if (!std::filesystem::exists(earlier)) return;
  try {
    for (const std::string& change : config_changes(load_config(earlier), config_)) {
      console_.line("changed since the run's last start: " + change);
    }
  } catch (const Error& error) {
    console_.warning(
        fmt::format("cannot tell which keys changed since the run's last start: {}", error.what()));
  }
}

void TrainingLoop::log_step(bool needed) {
  const int64_t step = trainer_.steps_done();
  const bool line_is_due = is_due(config_.log.interval, step) || step == last_step_ || is_first_;
  is_first_ = false;
  if (line_is_due || needed || !trainer_.results_wait()) {
    log_result(trainer_.result(), line_is_due);
  } else if (console_.progress_is_due()) {
    log_result(trainer_.local_result(), line_is_due);
  }
}

void TrainingLoop::log_result(const StepResult& result, bool line_is_due) {
  if (!result.note.empty()) console_.line(result.note);
  if (metrics_ && result.bad_step) metrics_->bad_step(*result.bad_step);
  clock_.add(result);
  const std::optional<double> left = clock_.seconds_left(last_step_ - result.step);
  if (line_is_due) {
    const auto slowest = stragglers_.gather(world_);
    console_.step(result, clock_.speed(), left);
    if (metrics_) metrics_->step(result, trainer_.run().tokens, clock_.speed(), slowest);
    clock_.restart();
    if (const std::string slow = stragglers_.take_warning(); !slow.empty()) console_.warning(slow);
  }
  if (result.has_targets) {
    const std::string rise = divergence_.add(result.step, result.loss(), result.grad_norm);
    if (!rise.empty()) console_.warning(rise);
    if (!rise.empty() && metrics_) metrics_->event(result.step, "warning", rise);
  }
  console_.progress(result, left);
  check_metrics();
}

void TrainingLoop::check_metrics() {
  if (!metrics_) return;
  const std::optional<std::string> problem = metrics_->problem();
  if (problem && !metrics_wait_) {
    console_.warning(
        fmt::format("{}/metrics.jsonl cannot be written: {}. Its lines are kept, and written when "
                    "there is room",
                    config_.run.dir, *problem));
  } else if (!problem && metrics_wait_) {
    console_.line("metrics.jsonl can be written again, and has all lines");
  }
  metrics_wait_ = problem.has_value();
}

void TrainingLoop::evaluate() {
  const PhaseScope phase(RunPhase::evaluating);
  const auto start = WalltimeLimit::Clock::now();
  const Evaluation found = trainer_.evaluate();
  walltime_.add_evaluation(WalltimeLimit::Clock::now() - start);
  is_saved_ = false;
  console_.evaluation(trainer_.steps_done(), found);
  if (metrics_) metrics_->evaluation(trainer_.steps_done(), found);
}

void TrainingLoop::write_samples() {
  const PhaseScope phase(RunPhase::evaluating);
  const auto start = WalltimeLimit::Clock::now();
  const std::vector<ModelSample> samples = trainer_.write_samples();
  walltime_.add_evaluation(WalltimeLimit::Clock::now() - start);
  is_saved_ = false;
  console_.samples(trainer_.steps_done(), samples);
  if (metrics_) metrics_->samples(trainer_.steps_done(), samples);
}

void TrainingLoop::write_timeline(bool run_ends) {
  const std::string line = timeline_.write_if_whole(run_ends);
  if (!line.empty()) console_.line(line);
}

void TrainingLoop::write_histograms() {
  const int64_t step = trainer_.steps_done();
  for (const ParameterHistograms& parameter : trainer_.histograms()) {
    if (!metrics_) continue;
    metrics_->histogram(step, "weights/" + parameter.name, parameter.weights);
    metrics_->histogram(step, "gradients/" + parameter.name, parameter.gradients);
  }
}

void TrainingLoop::write_attention() {
  if (!hooks_.look_at_attention) return;
  const PhaseScope phase(RunPhase::evaluating);
  AttentionOfRun found;
  trainer_.ask([&](QueriedModel& model, const Tokenizer& tokenizer, const Sample& sample) {
    found = hooks_.look_at_attention(model, tokenizer, sample);
  });
  if (!metrics_) return;
  const int64_t step = trainer_.steps_done();
  for (const Picture& picture : found.pictures) metrics_->picture(step, picture);
  found.report["step"] = step;
  write_page("attention.json", [&] {
    write_whole_files({{config_.run.dir + "/attention.json", found.report.dump() + "\n"}},
                      Replace::own);
  });
}

void TrainingLoop::write_report(bool run_goes_on) {
  if (!metrics_ || config_.log.report_interval == 0 || !hooks_.write_report) return;
  const FlightRecorder::Scope unrecorded(nullptr);
  write_page("report.html", [&] { hooks_.write_report(config_.run.dir, run_goes_on); });
}

// A file of this kind would make the folder of a run again.
void TrainingLoop::write_page(const char* name, const std::function<void()>& write) {
  std::error_code ignored;
  if (!std::filesystem::exists(config_.run.dir, ignored)) return;
  try {
    write();
  } catch (const Error& error) {
    if (!page_warnings_.insert(name).second) return;
    console_.warning(fmt::format("{}/{} is not written: {}", config_.run.dir, name, error.what()));
  }
}

void TrainingLoop::save(SaveKind kind) {
  const PhaseScope phase(RunPhase::saving);
  if (trainer_.saving()) finish_earlier_save(kind);
  all_or_none(world_, require_whole_mappings);
  const bool by_time = kind == SaveKind::by_time;
  const bool copies = kind != SaveKind::last && config_.checkpoint.background &&
                      (!by_time || has_memory_for_copy());
  pending_save_ = kind;
  try {
    keep_run_folder();
    if (copies) {
      trainer_.begin_save({}, by_time);
    } else {
      log_saved(trainer_.save({}, by_time));
    }
    is_saved_ = true;
  } catch (const SharedError& error) {
    leave_out_save(error);
  }
}

bool TrainingLoop::has_memory_for_copy() const {
  // 16 bytes a parameter are the most: weight, two moments and average.
  const auto copy = 16.0 * static_cast<double>(trainer_.memory().global_parameters);
  const std::optional<size_t> available = find_available_memory();
  int32_t lacks = available && static_cast<double>(*available) < 2.0 * copy ? 1 : 0;
  world_.all_reduce(Tensor(&lacks, {1}, DType::i32, kCpu), ReduceOp::max);
  return lacks == 0;
}

void TrainingLoop::leave_out_save(const SharedError& error) {
  if (pending_save_ != SaveKind::by_time || error.exit_code() != ExitCode::output) throw error;
  timed_saves_.saved(hooks_.now(), std::nullopt);
  console_.warning(fmt::format("{}. Training continues, and saves again in {:.0f} minutes",
                               error.what(), timed_saves_.interval().count() / 60.0));
}

void TrainingLoop::poll_save() {
  try {
    if (const auto saved = trainer_.poll_save()) log_saved(*saved);
  } catch (const SharedError& error) {
    if (!folder_is_gone()) return leave_out_save(error);
    console_.warning(error.what());
    save(pending_save_);
  }
}

// At the end of a run, a failed earlier save must not prevent the last one.
void TrainingLoop::finish_earlier_save(SaveKind next) {
  try {
    finish_save();
  } catch (const SharedError& error) {
    if (next != SaveKind::last && !folder_is_gone()) return leave_out_save(error);
    console_.warning(error.what());
  }
}

bool TrainingLoop::folder_is_gone() {
  bool is_gone = false;
  all_or_none(world_, [&] { is_gone = lock_ && lock_->find() == RunLock::Found::nothing; });
  return broadcast_string(world_, is_gone ? "gone" : "", 0) == "gone";
}

void TrainingLoop::finish_save() {
  const auto start = std::chrono::steady_clock::now();
  const SavedCheckpoint saved = trainer_.finish_save();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  console_.line(fmt::format("waited {:.2f} s until the checkpoint of step {} was saved",
                            waited.count(), saved.step));
  log_saved(saved);
}

void TrainingLoop::finish_save_after_error() {
  if (!trainer_.saving()) return;
  const PhaseScope phase(RunPhase::saving);
  try {
    finish_save();
  } catch (const std::exception& error) {
    console_.warning(message_of(error));
  }
}

void TrainingLoop::log_saved(const SavedCheckpoint& saved) {
  const double seconds = saved.seconds + saved.background_seconds;
  walltime_.add_save(seconds);
  timed_saves_.saved(hooks_.now(), seconds);
  saved_step_ = saved.step;
  console_.saved(saved);
  if (metrics_) metrics_->saved(saved);
}

}  // namespace tessera
