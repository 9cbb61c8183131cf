#include "launch/cli/support/checkpoint_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/cli/support/command_line.h"
#include "launch/logging/metrics_log.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

int64_t best_step(const fs::path& run) {
  const int64_t best = logged_evaluations(run).best_step;
  require(best > 0,
          "--best: {} has no evaluation in its metrics.jsonl: leave it out, or pass --step",
          run.string());
  return best;
}

}  // namespace

void add_step_options(CLI::App& command, CheckpointChoice& choice) {
  CLI::Option* const best =
      command.add_flag("--best", choice.best,
                       "Use the run's checkpoint with the lowest evaluation loss instead of the "
                       "newest (checkpoint.keep_best keeps it)");
  command.add_option("--step", choice.step, "Use the run's checkpoint of this step")
      ->check(whole_number_from(0))
      ->type_name("STEP")
      ->excludes(best);
}

void add_model_argument(CLI::App& command, CheckpointChoice& choice) {
  command
      .add_option("RUN", choice.run,
                  "Folder of a run (uses its newest intact checkpoint) or of one checkpoint")
      ->required()
      ->type_name("");
  add_step_options(command, choice);
  command.add_flag("--ema", choice.ema,
                   "Use the averaged weights of a run with optimizer.ema_decay instead of those of "
                   "its last step");
}

fs::path resolve(const CheckpointChoice& choice) {
  if (!choice.best && !choice.step) return resolve_checkpoint(choice.run);
  const char* const option = choice.best ? "--best" : "--step";
  const fs::path run(choice.run);
  require(!fs::exists(run / kManifestName),
          "{} chooses a checkpoint of a run, but {} is one checkpoint: leave it out", option,
          run.string());
  const int64_t step = choice.best ? best_step(run) : *choice.step;
  std::vector<int64_t> kept;
  for (const StepFolder& folder : step_folders(checkpoints_folder(run))) {
    if (folder.step == step) return folder.path;
    kept.push_back(folder.step);
  }
  std::ranges::reverse(kept);
  fail("{}: {} has no checkpoint of step {}{}: {}", option, run.string(), step,
       choice.best ? ", which has the lowest evaluation loss" : "",
       kept.empty() ? "it has none at all"
                    : fmt::format("choose one of {} with --step", fmt::join(kept, ", ")));
}

fs::path resolve(const CheckpointChoice& choice, Communicator& world) {
  std::string found;
  all_or_none(world, [&] {
    if (world.rank() == 0) found = resolve(choice).string();
  });
  return broadcast_string(world, found, 0);
}

}  // namespace tessera
