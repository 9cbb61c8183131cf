#include "launch/train/run_training.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "launch/config/config_changes.h"
#include "launch/config/load_config.h"
#include "launch/devices/attention_setup.h"
#include "launch/devices/open_devices.h"
#include "launch/logging/console.h"
#include "launch/train/memory/host_memory_check.h"
#include "launch/train/run_setup.h"
#include "launch/train/start/run_lock.h"
#include "launch/train/start/run_recorder.h"
#include "launch/train/start/start.h"
#include "launch/train/start/start_summary.h"
#include "launch/train/training_loop.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

/// Describes the attention implementation of the run's steps on a GPU.
std::string attention_of(const RunConfig& config) {
  const std::string implementation = cuda::attention_implementation(attention_setup(config));
  return implementation.starts_with("own")
             ? implementation
             : implementation + ", and Tessera's kernels for shapes that it has no plan for";
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

/// The step after which this start ends.
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

ExitCode run_training(const TrainOptions& options, Communicator& world, const RunHooks& hooks) {
  RunInputs inputs =
      open_run_inputs(world, [&] { return load_config(options.config, options.overrides); });
  std::optional<RunLock> lock;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    with_exit_code(ExitCode::output, [&] { make_run_folder(inputs.config); });
    lock.emplace(inputs.config.run.dir);
  });
  // Destroyed after the trainer, whose collectives may be pending if training fails.
  std::optional<RunRecorder> recorder;
  DeviceRequest request = device_request(inputs.config);
  request.nccl_log = std::filesystem::path(inputs.config.run.dir) / "nccl.txt";
  OpenedRanks ranks(request, inputs.config.grid_shape(), world);
  RunSetup run(std::move(inputs), ranks, /*measures_peak=*/true);
  const RunConfig& config = run.inputs.config;
  const KeyOrigins& origins = run.inputs.origins;
  const OpenedDevices& devices = ranks.devices;
  const ParallelGroups& groups = ranks.groups;
  const Peak& peak = run.peak;
  std::unique_ptr<Trainer>& trainer = run.trainer;
  const auto shortage = find_host_memory_shortage(trainer->memory(), run.available, world);

  Console console(world.rank() == 0, last_step(config, options));
  console.line(
      start_summary(config, groups, trainer->memory(), ranks.threads.summary, devices.summary));
  if (shortage) {
    console.warning(*shortage + ". The system may kill ranks later, without a message");
  }
  if (!devices.note.empty()) console.line(devices.note);
  if (!peak.note.empty()) console.line(peak.note);
  if (devices.device.is_cuda()) console.line("attention  " + attention_of(config));
  for (const std::string& line : derived_lines(config, origins)) console.line(line);
  for (const std::string& note : run.inputs.data.notes) console.line(note);
  if (const auto reason =
          cuda_graph_unsupported_reason(config.step_options(), devices.device, groups);
      reason && devices.device.is_cuda()) {
    console.line("no CUDA graphs, because " + *reason);
  }
  if (const auto tuned = trainer->tune_products(/*stores=*/true))
    console.line("products   " + *tuned);
  console.line(start_or_resume(config, *trainer, world,
                               [&](const std::string& skipped) { console.warning(skipped); }));
  if (const auto reason = why_nothing_to_do(config, options, trainer->steps_done())) {
    if (!owes_evaluation(config, *trainer) && !owes_samples(config, *trainer)) {
      console.line(*reason);
      return ExitCode::finished;
    }
  }
  // Not before: a start that is refused leaves the recorders of the last one as they are.
  ExitCode end = ExitCode::finished;
  recorder.emplace(config, world).run([&] {
    end = TrainingLoop(run, last_step(config, options), groups.world, console, lock, hooks).run();
  });
  return end;
}

}  // namespace tessera
