#include "launch/tools/replay/replay.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "launch/checkpoint/find.h"
#include "launch/config/load_config.h"
#include "launch/support/input/json_log.h"
#include "launch/support/text/redrawn_line.h"
#include "launch/support/text/terminal.h"
#include "launch/train/run_setup.h"
#include "launch/train/start/start.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The run's configuration for its folder as it is named now, without what only a run that saves
/// needs.
RunConfig config_of(const ReplayOptions& options) {
  const fs::path path = options.run / "config.yaml";
  require(fs::is_directory(options.run), "{} is not a folder: pass the folder of a run",
          options.run.string());
  require(fs::exists(path), "{} does not exist: pass the folder of a run that has begun",
          path.string());
  RunConfig config = load_config(path);
  require(options.step <= config.train.steps, "--step is {}, but train.steps of {} is {}",
          options.step, path.string(), config.train.steps);
  config.run.dir = options.run.string();
  config.automatic.erase("run.dir");
  config.checkpoint.interval = 0;
  config.train.max_rollbacks = 0;
  config.log.timeline_steps = 0;
  return config;
}

std::optional<LoggedStep> logged_step(const fs::path& run, int64_t step) {
  std::optional<LoggedStep> found;
  for_each_json_line(run / "metrics.jsonl", [&](const JsonLogLine& line) {
    const Json& json = line.object;
    if (json.is_null() || json.value("step", Json()) != step || !json.contains("loss")) return;
    const auto number = [&](const char* key) {
      return json.contains(key) && json[key].is_number() ? json[key].get<double>() : NAN;
    };
    found = LoggedStep{number("loss"), number("grad_norm")};
  });
  return found;
}

/// Runs the steps before the one to compute, and shows where it is.
void run_steps_before(const ReplayOptions& options, Trainer& trainer, bool shows) {
  RedrawnLine progress(STDERR_FILENO, shows);
  const int64_t first = trainer.steps_done();
  const auto steps = static_cast<double>(options.step - 1 - first);
  while (trainer.steps_done() < options.step - 1) {
    if (progress.is_due()) {
      const double done = static_cast<double>(trainer.steps_done() - first) / steps;
      progress.draw(
          fmt::format("{} step {} of {}", progress_bar(done), trainer.steps_done(), options.step));
    }
    trainer.step();
  }
  progress.clear();
  if (steps > 0) trainer.result();  // throws if the run ended before the step
}

}  // namespace

bool ReplayReport::same_bits() const {
  const auto same = [](double a, double b) {
    return a == b || (!std::isfinite(a) && !std::isfinite(b));
  };
  return logged && same(logged->loss, result.loss()) && same(logged->grad_norm, result.grad_norm);
}

ReplayReport run_replay(const ReplayOptions& options, Communicator& world) {
  RunInputs inputs = open_run_inputs(world, [&] { return config_of(options); });
  OpenedRanks ranks(device_request(inputs.config), inputs.config.grid_shape(), world);
  RunSetup run(std::move(inputs), ranks, /*measures_peak=*/false);
  Trainer& trainer = *run.trainer;
  const ParameterStore& store = trainer.parameters();
  trainer.tune_products();
  ReplayReport report;
  report.run = options.run;
  report.layout = fmt::format("{} rank{} = {}", world.size(), world.size() == 1 ? "" : "s",
                              to_string(ranks.groups.grid));
  report.start = start_or_resume(run.inputs.config, trainer, world, warn_of_skipped, options.step);
  report.steps = options.step - 1 - trainer.steps_done();
  run_steps_before(options, trainer, world.rank() == 0 && stderr_is_watched());

  const int64_t first_place = trainer.first_place(options.step);
  report.documents = document_losses(trainer.parts(), options.step - 1, first_place);
  ParameterSquares squares;
  squares.weights = weight_squares(trainer.optimizer_state(), ranks.groups);
  trainer.step();
  report.result = trainer.local_result();
  squares.gradients = gradient_squares(trainer.optimizer_state(), ranks.groups);
  report.layers = layer_norms(store, squares);
  if (const auto reason = trainer.bad_reason()) {
    report.skipped = fmt::format("its {} is {}", reason->subject, reason->predicate);
    if (!reason->is_spike) {
      report.diagnosis = diagnose_step(trainer.parts(), options.step - 1, first_place);
    }
  }
  all_or_none(world, [&] {
    if (world.rank() == 0) report.logged = logged_step(options.run, options.step);
  });
  return report;
}

}  // namespace tessera
