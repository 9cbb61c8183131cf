#include "launch/tools/design/design.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/input_options.h"
#include "launch/cli/support/process.h"
#include "launch/support/text/print.h"

namespace tessera {

void add_design_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<DesignOptions>();
  const auto output = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "design", "Write a configuration that makes good use of a text and of some minutes");
  add_input_options(*command, options->input, "--text");
  command
      ->add_option("--minutes", options->minutes,
                   "Time that training may take, on as many ranks as this command is started with")
      ->required()
      ->type_name("M")
      ->check(CLI::Range(0.1, 1e5).description(""));
  command
      ->add_option("--output", *output,
                   "A new folder for the tokenizer, the dataset, train.yaml and the run")
      ->required()
      ->type_name("FOLDER");
  command->callback([command, options, output, &exit_code] {
    options->files = {*output};
    options->report = [](const std::string& line) { print_out("{}\n", line); };
    exit_code = run_on_ranks(command_line_of(*command), [&](Communicator& world) {
      const RunDesign design = design_run(*options, world);
      if (world.rank() != 0) return;
      const std::string ranks = world.size() == 1 ? "" : fmt::format("run -np {} ", world.size());
      print_out("{}wrote {}; start it with\n\n    tessera {}train {}\n", to_string(design),
                options->files.config().string(), ranks, options->files.config().string());
    });
  });
}

}  // namespace tessera
