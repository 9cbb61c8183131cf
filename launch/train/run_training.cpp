#include "launch/train/run_training.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "core/cuda/runtime.h"
#include "core/deterministic.h"
#include "core/device.h"
#include "core/error.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "launch/config/config_changes.h"
#include "launch/config/load_config.h"
#include "launch/config/validate.h"
#include "launch/data/training_data.h"
#include "launch/devices/attention_setup.h"
#include "launch/devices/open_devices.h"
#include "launch/devices/warm_up.h"
#include "launch/logging/console.h"
#include "launch/metrics/gpu_peaks.h"
#include "launch/metrics/product_speed.h"
#include "launch/train/memory/host_memory_check.h"
#include "launch/train/memory/micro_batch.h"
#include "launch/train/start/derive_config.h"
#include "launch/train/start/run_lock.h"
#include "launch/train/start/run_recorder.h"
#include "launch/train/start/start.h"
#include "launch/train/start/start_summary.h"
#include "launch/train/trainer.h"
#include "launch/train/training_loop.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_memory.h"
#include "parallel/host/host_threads.h"
#include "parallel/process_grid.h"

namespace tessera {
namespace {

/// Describes the attention implementation of the run's steps on a GPU.
std::string attention_of(const RunConfig& config) {
  const std::string implementation = cuda::attention_implementation(attention_setup(config));
  return implementation.starts_with("own")
             ? implementation
             : implementation + ", and Tessera's kernels for shapes that it has no plan for";
}

/// The peak that MFU is relative to.
struct Peak {
  std::optional<double> flops;  ///< per second, of all GPUs together
  std::string note;             ///< its source if it is not a data sheet, otherwise ""
};

/// If no data sheet is known, rank 0, which writes the log, measures its own GPU before memory is
/// allocated. Never measures an emulated GPU: its times mean nothing.
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
          "MFU is relative to {:.0f} TFLOP/s per GPU, the speed of a product of {} × {} matrices: "
          "no data sheet of {} is known",
          *peak.flops / 1e12, kSize, kSize, name);
    }
    if (peak.flops) *peak.flops *= devices.gpus;
  }
  return peak;
}

/// Throws if the run asks for a timeline on GPUs; only CPU ranks have one.
void check_timeline(const LogSection& log, const OpenedDevices& devices) {
  require(log.timeline_steps == 0 || devices.device.is_cpu(),
          "log.timeline_steps is {}, but timelines show the threads of CPU ranks, and this run "
          "uses GPUs: choose 0, and start the run under `nsys profile`, which shows the same "
          "ranges next to GPU activity",
          log.timeline_steps);
}

/// Sets which algorithms the calling thread's ops use. Throws if the run asks for what only GPUs
/// have, on CPUs.
void choose_algorithms(const RunConfig& config, const OpenedDevices& devices) {
  const std::string why_cpus = devices.note.empty() ? "" : " (" + devices.note + ")";
  require(!config.run.tf32 || devices.device.is_cuda(),
          "run.tf32 is true, but only GPUs have TF32, and this run uses CPUs{}: choose false, or "
          "start it on a machine with GPUs",
          why_cpus);
  require(!config.train.cudnn_dropout || devices.device.is_cuda(),
          "train.cudnn_dropout is true, but cuDNN runs only on GPUs, and this run uses CPUs{}: "
          "choose false, or start it on a machine with GPUs",
          why_cpus);
  require(!config.train.cudnn_dropout || cuda::kHasCudnn,
          "train.cudnn_dropout is true, but this build has no cuDNN: choose false, or build with "
          "cuDNN (docs/gpu.md)");
  use_deterministic_algorithms(config.run.deterministic);
  allow_cudnn_dropout(config.train.cudnn_dropout);
  if constexpr (kHasCuda) {
    if (devices.device.is_cuda()) cuda::use_tf32(config.run.tf32);
  }
}

/// "model.vocab_size is 4000 (the tokenizer's)", a line for each derived key, and one for several
/// keys of the model with the same origin, whose values the summary shows.
std::vector<std::string> derived_lines(const RunConfig& config, const KeyOrigins& origins) {
  std::vector<std::string> lines;
  std::map<std::string, std::vector<std::string>> of_model;  // by origin
  for (const NamedValue& key : config_values(config)) {
    const auto origin = origins.find(key.name);
    if (origin == origins.end()) continue;
    const bool is_named = !config.automatic.contains(key.name);  // otherwise the origin says it
    const std::string line = is_named
                                 ? fmt::format("{} is {} ({})", key.name, key.value, origin->second)
                                 : fmt::format("{} is {}", key.name, origin->second);
    (key.name.starts_with("model.") ? of_model[origin->second] : lines).push_back(line);
  }
  for (const auto& [origin, keys] : of_model) {
    lines.push_back(keys.size() == 1
                        ? keys[0]
                        : fmt::format("{} keys of model are derived ({})", keys.size(), origin));
  }
  return lines;
}

/// The step after which the run ends.
int64_t last_step(const RunConfig& config, const TrainOptions& options) {
  return std::min(config.train.steps, options.stop_at.value_or(config.train.steps));
}

std::optional<std::string> why_nothing_to_do(const RunConfig& config, const TrainOptions& options,
                                             int64_t steps_done) {
  if (steps_done >= config.train.steps) {
    return fmt::format("nothing to do: train.steps is {}, and the run is at step {}",
                       config.train.steps, steps_done);
  }
  if (options.stop_at && steps_done >= *options.stop_at) {
    return fmt::format("nothing to do: --stop-at is {}, and the run is at step {}",
                       *options.stop_at, steps_done);
  }
  return std::nullopt;
}

}  // namespace

ExitCode run_training(const TrainOptions& options, Communicator& world) {
  RunConfig given;
  TrainingData data;
  std::optional<RunLock> lock;
  all_or_none(world, [&] { given = load_config(options.config, options.overrides); });
  with_exit_code(ExitCode::configuration, [&] {
    require_same_on_ranks(world, config_values(given),
                          "Start all ranks with the same configuration and the same --set");
  });
  DerivedConfig derived = derive_config(given, world, warn_of_skipped);
  RunConfig& config = derived.config;
  all_or_none(world, [&] {
    with_exit_code(ExitCode::configuration, [&] {
      validate(config, world.size());
      data = open_training_data(config, derived.tokenizer);
    });
  });
  with_exit_code(ExitCode::data, [&] {
    require_same_on_ranks(world, data.identity,
                          "Give all hosts the same files: copy them again, or use a shared folder");
  });
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    with_exit_code(ExitCode::output, [&] { make_run_folder(config); });
    lock.emplace(config.run.dir);
  });
  const HostThreads threads = apply_host_threads(world);
  const OpenedDevices devices =
      open_devices({config.run.device, config.parallel.backend, config.run.deterministic}, world);
  const ParallelGroups groups =
      make_parallel_groups(*devices.world, static_cast<int>(config.parallel.tensor));
  Peak peak;
  all_or_none(world, [&] {
    with_exit_code(ExitCode::configuration, [&] {
      choose_algorithms(config, devices);
      check_timeline(config.log, devices);
    });
    peak = peak_of(devices, config.run, world.rank() == 0);
  });
  const size_t free_bytes = free_bytes_after_warm_up(config, devices, groups);
  std::optional<size_t> available;  // before any rank allocates
  all_or_none(world, [&] { available = find_available_memory(); });
  if (config.automatic.erase("batch.micro") > 0) {
    const MicroBatch chosen =
        choose_micro_batch(config, groups, devices.device, free_bytes, available);
    config.batch.micro = chosen.size;
    derived.origins["batch.micro"] = chosen.reason;
  }
  std::unique_ptr<Trainer> trainer;
  all_or_none(world, [&] {
    trainer = std::make_unique<Trainer>(config, groups, data, devices.device, free_bytes);
  });
  const auto shortage = find_host_memory_shortage(trainer->memory(), available, world);

  Console console(world.rank() == 0, last_step(config, options));
  console.line(start_summary(config, groups, trainer->memory(), threads.summary, devices.summary));
  if (shortage) {
    console.warning(*shortage + ". The system may kill ranks later, without a message");
  }
  if (!devices.note.empty()) console.line(devices.note);
  if (!peak.note.empty()) console.line(peak.note);
  if (devices.device.is_cuda()) console.line("attention  " + attention_of(config));
  for (const std::string& line : derived_lines(config, derived.origins)) console.line(line);
  for (const std::string& note : data.notes) console.line(note);
  if (const auto reason = cuda_graph_unsupported_reason(config, devices.device, groups);
      reason && devices.device.is_cuda()) {
    console.line("no CUDA graphs, because " + *reason);
  }
  if (const auto tuned = trainer->tune_products()) console.line("products   " + *tuned);
  console.line(start_or_resume(config, *trainer, world,
                               [&](const std::string& skipped) { console.warning(skipped); }));
  if (const auto reason = why_nothing_to_do(config, options, trainer->steps_done())) {
    console.line(*reason);
    return ExitCode::finished;
  }
  // Not before: a start that is refused leaves the recorders of the last one as they are.
  ExitCode end = ExitCode::finished;
  RunRecorder(config, world).run([&] {
    end = TrainingLoop(config, derived.origins, last_step(config, options), groups.world, *trainer,
                       console, peak.flops, lock)
              .run();
  });
  return end;
}

}  // namespace tessera
