#include "launch/tools/status/status.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/support/text/print.h"

namespace tessera {

void add_status_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("status", "Show what each rank of a run does or did last");
  const auto path = std::make_shared<std::string>();
  command->add_option("RUN", *path, "Folder of a run, which may be running")->required();
  command->callback([command, path] {
    run_on_first_rank(command_line_of(*command),
                      [&] { print_text(run_status(std::filesystem::path(*path))); });
  });
}

}  // namespace tessera
