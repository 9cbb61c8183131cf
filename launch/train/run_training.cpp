#include "launch/train/run_training.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>

#include "core/cuda/runtime.h"
#include "core/device.h"
#include "core/error.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/trace/trace.h"
#include "launch/config/config_changes.h"
#include "launch/config/load_config.h"
#include "launch/config/validate.h"
#include "launch/data/open_data.h"
#include "launch/devices/open_devices.h"
#include "launch/logging/console.h"
#include "launch/logging/metrics_log.h"
#include "launch/logging/step_timeline.h"
#include "launch/metrics/peak_flops.h"
#include "launch/metrics/product_speed.h"
#include "launch/train/memory/host_room.h"
#include "launch/train/run_lock.h"
#include "launch/train/start.h"
#include "launch/train/start_summary.h"
#include "launch/train/stop_signal.h"
#include "launch/train/trainer.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_memory.h"
#include "parallel/host/host_threads.h"
#include "parallel/process_grid.h"

namespace tessera {
namespace {

/// Whether something that happens every `interval` steps (0: never) happens after step `step`.
bool is_due(int64_t interval, int64_t step) { return interval > 0 && step % interval == 0; }

/// Where the run ends this time.
int64_t last_step(const RunConfig& config, const TrainOptions& options) {
  return std::min(config.train.steps, options.stop_at.value_or(config.train.steps));
}

/// One run on one rank, from its first step here to its last.
class TrainingRun {
 public:
  TrainingRun(const RunConfig& config, const TrainOptions& options, const ParallelGroups& groups,
              Trainer& trainer, Console& console, std::optional<double> peak_flops)
      : config_(config),
        groups_(groups),
        trainer_(trainer),
        console_(console),
        last_step_(last_step(config, options)),
        timeline_(config, groups.world),
        clock_(peak_flops) {
    all_or_none(groups.world, [&] {
      if (groups.world.rank() == 0) {
        if (trainer.steps_done() > 0) report_changes();
        write_run_config(config);
        metrics_ = std::make_unique<MetricsLog>(config.run.dir, trainer.steps_done());
      }
    });
  }

  void run() {
    try {
      take_steps();
    } catch (const std::exception& error) {
      // Whatever ends the run, if it ends all ranks here and now, what was being saved is good.
      const bool all_are_here =
          groups_.world.size() == 1 || dynamic_cast<const SharedError*>(&error) != nullptr;
      if (all_are_here) save_what_was_begun();
      throw;
    }
  }

 private:
  void take_steps() {
    const StopSignal signal;
    while (trainer_.steps_done() < last_step_) {
      take_step();
      const int64_t step = trainer_.steps_done();
      const bool stop = signal.requested(groups_.world);
      const bool last = step == last_step_;
      const bool saves = stop || last || is_due(config_.checkpoint.interval, step);
      const bool evaluates =
          is_due(config_.eval.interval, step) || (last && config_.eval.interval > 0);
      observe(saves || evaluates);
      // First of all: who was asked to stop may have a second left.
      if (saves) {
        save(stop || last);
      } else if (trainer_.saving()) {
        if (const auto saved = trainer_.poll_save()) report(*saved);
      }
      if (const std::string line = timeline_.write_if_whole(stop || last); !line.empty()) {
        console_.line(line);
      }
      if (stop) {
        console_.line(fmt::format("asked to stop: saved after step {}", step));
        return;
      }
      if (evaluates) evaluate();
    }
  }

  void take_step() {
    const Timeline::Scope scope(timeline_.next(trainer_.steps_done() + 1));
    const TraceRange range("step");
    trainer_.step();
  }

  /// Says what a resumed run does otherwise than before: a --set that was forgotten, above all.
  void report_changes() {
    const std::filesystem::path earlier = std::filesystem::path(config_.run.dir) / "config.yaml";
    if (!std::filesystem::exists(earlier)) return;
    try {
      for (const std::string& change : config_changes(load_config(earlier), config_)) {
        console_.line("changed since the run's last start: " + change);
      }
    } catch (const Error& error) {
      console_.warning(
          fmt::format("what changed since the run's last start can not be said: {}", error.what()));
    }
  }

  /// Asks for the step's result where all ranks `need` it or a line is due, at every step where
  /// that costs nothing, and otherwise on the rank whose bar is due.
  void observe(bool needed) {
    const int64_t step = trainer_.steps_done();
    const bool logs = is_due(config_.log.interval, step) || step == last_step_ || first_;
    first_ = false;
    if (logs || needed || !trainer_.results_wait()) {
      report(trainer_.result(), logs);
    } else if (console_.progress_is_due()) {
      report(trainer_.local_result(), logs);
    }
  }

  void report(const StepResult& result, bool logs) {
    if (!result.note.empty()) console_.line(result.note);
    clock_.add(result);
    const double left = clock_.seconds_left(last_step_ - result.step);
    if (logs) {
      console_.step(result, clock_.speed(), left);
      if (metrics_) metrics_->step(result, trainer_.tokens_done(), clock_.speed());
      clock_.restart();
    }
    console_.progress(result, left);
  }

  void evaluate() {
    const Evaluation found = trainer_.evaluate();
    console_.evaluation(trainer_.steps_done(), found);
    if (metrics_) metrics_->evaluation(trainer_.steps_done(), found);
  }

  /// Where the run `ends`, there are no steps that could go on meanwhile.
  void save(bool ends) {
    if (trainer_.saving()) finish_earlier_save(ends);
    if (ends || !config_.checkpoint.background) {
      report(trainer_.save());
    } else {
      trainer_.begin_save();
    }
  }

  /// Where the run ends, an earlier save's failure must not cost the last one.
  void finish_earlier_save(bool run_ends) {
    try {
      finish_save();
    } catch (const SharedError& error) {
      if (!run_ends) throw;
      console_.warning(error.what());
    }
  }

  void finish_save() {
    const auto start = std::chrono::steady_clock::now();
    const SavedCheckpoint saved = trainer_.finish_save();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    console_.line(fmt::format("waited {:.2f} s until the checkpoint of step {} was saved",
                              waited.count(), saved.step));
    report(saved);
  }

  void save_what_was_begun() {
    if (!trainer_.saving()) return;
    try {
      finish_save();
    } catch (const std::exception& error) {
      console_.warning(error.what());
    }
  }

  void report(const SavedCheckpoint& saved) {
    console_.saved(saved);
    if (metrics_) metrics_->saved(saved);
  }

  const RunConfig& config_;
  const ParallelGroups& groups_;
  Trainer& trainer_;
  Console& console_;
  int64_t last_step_;
  std::unique_ptr<MetricsLog> metrics_;
  StepTimeline timeline_;
  StepClock clock_;
  bool first_ = true;
};

RunConfig load_and_validate(const TrainOptions& options, int world_size) {
  RunConfig config = load_config(options.config, options.overrides);
  validate(config, world_size);
  return config;
}

/// What computes the attention of the run's steps on a GPU.
std::string attention_of(const RunConfig& config) {
  cuda::AttentionSetup setup;
  setup.mask = traits_of(config.model).mask_kinds();
  setup.dtype = config.run.precision;
  setup.head_dim = config.model.head_dim();
  setup.dropout = config.model.attention_dropout > 0.0;
  const std::string implementation = cuda::attention_implementation(setup);
  return implementation.starts_with("own")
             ? implementation
             : implementation + ", and own kernels for shapes that it has no plan for";
}

/// By what MFU is measured.
struct Peak {
  std::optional<double> flops;  ///< per second, of all GPUs together
  std::string note;             ///< where it is from, if from no data sheet; or ""
};

/// Where no data sheet is known, rank 0, whose log it is for, measures its own GPU, before memory
/// is allocated. No such time of an emulated GPU means anything.
Peak peak_of([[maybe_unused]] const OpenedDevices& devices, [[maybe_unused]] const RunSection& run,
             [[maybe_unused]] bool measures) {
  Peak peak;
  if constexpr (kHasCuda) {
    if (!devices.device.is_cuda()) return peak;
    const std::string name = cuda::device_kind(devices.device.index).name;
    peak.flops = peak_flops(name, run.precision, run.tf32);
    if (!peak.flops && measures && !cuda::is_emulated()) {
      constexpr int64_t kSize = 8192;
      peak.flops = product_speed(devices.device, run.precision, kSize);
      peak.note = fmt::format(
          "MFU is by {:.0f} TFLOP/s a GPU, which a product of {} × {} matrices reached: no data "
          "sheet of {} is known",
          *peak.flops / 1e12, kSize, kSize, name);
    }
    if (peak.flops) *peak.flops *= devices.gpus;
  }
  return peak;
}

/// Throws if the run asks for what only CPU ranks have.
void check_timeline(const LogSection& log, const OpenedDevices& devices) {
  require(
      log.timeline_steps == 0 || devices.device.is_cpu(),
      "log.timeline_steps is {}, and shows what the threads of CPU ranks do, but this run is on "
      "GPUs: choose 0, and start it under `nsys profile`, which shows the same ranges beside "
      "what the GPU does",
      log.timeline_steps);
}

/// Throws if the run asks for what only a GPU has, and prepares the calling thread for it.
void set_tf32(const RunConfig& config, const OpenedDevices& devices) {
  require(!config.run.tf32 || devices.device.is_cuda(),
          "run.tf32 is true, and TF32 is a GPU's, but this run is on CPUs{}{}: choose false, or "
          "start it where there are GPUs",
          devices.note.empty() ? "" : " (", devices.note.empty() ? "" : devices.note + ")");
  if constexpr (kHasCuda) {
    if (devices.device.is_cuda()) cuda::use_tf32(config.run.tf32);
  }
}

std::optional<std::string> why_nothing_to_do(const RunConfig& config, const TrainOptions& options,
                                             int64_t steps_done) {
  if (steps_done >= config.train.steps) {
    return fmt::format("nothing to do: train.steps is {}", config.train.steps);
  }
  if (options.stop_at && steps_done >= *options.stop_at) {
    return fmt::format("nothing to do: --stop-at is {}", *options.stop_at);
  }
  return std::nullopt;
}

}  // namespace

void run_training(const TrainOptions& options, Communicator& world) {
  RunConfig config;
  TrainingData data;
  std::optional<RunLock> lock;
  all_or_none(world, [&] { config = load_and_validate(options, world.size()); });
  require_same_on_ranks(world, config_values(config),
                        "Start all ranks with the same configuration and the same --set");
  all_or_none(world, [&] { data = open_data(config); });
  require_same_on_ranks(world, data.identity,
                        "Give all hosts the same files: copy them anew, or use a shared folder");
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    make_run_folder(config);
    lock.emplace(config.run.dir);
  });
  const HostThreads threads = apply_host_threads(world);
  const OpenedDevices devices = open_devices(config.run.device, config.parallel.backend, world);
  const ParallelGroups groups =
      make_parallel_groups(*devices.world, static_cast<int>(config.parallel.tensor));
  Peak peak;
  all_or_none(world, [&] {
    set_tf32(config, devices);
    check_timeline(config.log, devices);
    peak = peak_of(devices, config.run, world.rank() == 0);
  });
  std::optional<size_t> available;  // before any rank takes of it
  all_or_none(world, [&] { available = find_available_memory(); });
  std::unique_ptr<Trainer> trainer;
  all_or_none(world, [&] {
    trainer = std::make_unique<Trainer>(config, groups, data, devices.device, devices.free_bytes);
  });
  const std::string no_room = find_host_without_room(trainer->memory(), available, world);

  Console console(world.rank() == 0, last_step(config, options));
  console.line(start_summary(config, groups, trainer->memory(), threads.summary, devices.summary));
  if (!no_room.empty()) {
    console.warning(no_room + ". The system may end ranks later, without a word");
  }
  if (!devices.note.empty()) console.line(devices.note);
  if (!peak.note.empty()) console.line(peak.note);
  if (devices.device.is_cuda()) console.line("attention  " + attention_of(config));
  for (const std::string& note : data.notes) console.line(note);
  const std::string no_graph = why_no_cuda_graph(config, devices.device, groups);
  if (devices.device.is_cuda() && !no_graph.empty()) {
    console.line("no CUDA graphs, because " + no_graph);
  }
  console.line(start_or_resume(config, *trainer, world,
                               [&](const std::string& skipped) { console.warning(skipped); }));
  if (const auto reason = why_nothing_to_do(config, options, trainer->steps_done())) {
    console.line(*reason);
    return;
  }
  TrainingRun(config, options, groups, *trainer, console, peak.flops).run();
}

}  // namespace tessera
