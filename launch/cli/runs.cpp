#include "launch/tools/runs/runs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/support/end_signals.h"
#include "launch/support/text/print.h"
#include "launch/support/text/terminal.h"

namespace tessera {
namespace {

struct RunsCommand {
  std::vector<std::string> folders = {"runs"};
  int64_t watch_seconds = 0;
};

std::vector<std::filesystem::path> runs_in(const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> runs;
  for (const std::string& folder : folders) {
    const auto found = find_runs(folder);
    require(!found.empty(), "{} has no runs: their folders have a config.yaml and a metrics.jsonl",
            folder);
    runs.insert(runs.end(), found.begin(), found.end());
  }
  return runs;
}

void print_runs(const std::vector<std::string>& folders) {
  print_text(runs_table(runs_in(folders)));
}

}  // namespace

void add_runs_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("runs", "List runs with their state, step and results");
  const auto given = std::make_shared<RunsCommand>();
  command
      ->add_option("FOLDER", given->folders,
                   "Folder with runs, up to 4 levels deep, or of one (default: runs)")
      ->type_name("");
  CLI::Option* watch =
      command
          ->add_option(
              "--watch", given->watch_seconds,
              "Print the table every so many seconds until Ctrl-C. Comes after the folders")
          ->expected(0, 1)
          ->allow_extra_args(false)
          ->default_str("5")
          ->check(whole_number_from(1))
          ->type_name("SECONDS");
  command->callback([command, watch, given] {
    run_on_first_rank(command_line_of(*command), [&] {
      if (watch->count() == 0) return print_runs(given->folders);
      const EndSignals signals;
      const bool clears = stdout_is_watched();
      do {
        if (clears) write_as_is(STDOUT_FILENO, "\x1b[H\x1b[J");
        print_runs(given->folders);
      } while (EndSignals::wait(static_cast<double>(given->watch_seconds)));
    });
  });
}

}  // namespace tessera
