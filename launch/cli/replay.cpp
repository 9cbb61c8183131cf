#include "launch/tools/replay/replay.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/support/text/print.h"

namespace tessera {

void add_replay_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ReplayOptions>();
  const auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "replay", "Compute a step of a run again: losses of its documents, norms of its layers");
  command->add_option("RUN", options->run, "Folder of a run, which may be running")->required();
  command
      ->add_option(
          "--step", options->step,
          "The step, from 1; steps since the newest checkpoint before it are computed, too")
      ->type_name("STEP")
      ->required()
      ->check(whole_number_from(1));
  command->add_flag("--json", *as_json, "Print one JSON object, with all documents");
  command->callback([command, options, as_json, &exit_code] {
    exit_code = run_on_ranks(command_line_of(*command), [&](Communicator& world) {
      const ReplayReport report = run_replay(*options, world);
      if (world.rank() != 0) return;
      print_text(*as_json ? to_text(to_json(report)) + "\n" : to_string(report));
    });
  });
}

}  // namespace tessera
