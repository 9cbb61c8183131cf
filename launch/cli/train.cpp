#include <CLI/CLI.hpp>
#include <memory>

#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/support/exit_codes.h"
#include "launch/tools/attention/run_attention.h"
#include "launch/tools/report/report.h"
#include "launch/train/run_training.h"
#include "launch/train/start/stop_signal.h"

namespace tessera {
namespace {

constexpr int64_t kReloadSeconds = 30;

RunHooks make_hooks() {
  RunHooks hooks;
  // One writer for all pages keeps the memory plan of the first.
  hooks.write_report = [writer = std::shared_ptr<ReportWriter>()](const std::filesystem::path& run,
                                                                  bool goes_on) mutable {
    if (!writer) writer = std::make_shared<ReportWriter>(ReportOptions{{run}, "", kReloadSeconds});
    writer->write(goes_on);
  };
  hooks.look_at_attention = attention_of_run;
  return hooks;
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a model");
  command->add_option("config", options->config, "YAML file of the run")
      ->required()
      ->type_name("CONFIG");
  command
      ->add_option("--set", options->overrides,
                   "Override a key of the file, as in --set optimizer.lr=1e-3; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--stop-at", options->stop_at,
                   "Save and stop after this step, as if the run had been interrupted")
      ->type_name("STEP")
      ->check(whole_number_from(1));
  command->footer(exit_codes_text());
  command->callback([command, options, &exit_code] {
    receive_stop_signals();
    exit_code = run_to_exit_code(
        command_line_of(*command, {"config", "--set"}),
        [&](Communicator& world) { return run_training(*options, world, make_hooks()); });
  });
}

}  // namespace tessera
