#include "launch/tools/report/report.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"

namespace tessera {
namespace {

struct ReportCommand {
  std::vector<std::string> runs;
  std::string output;
  bool overwrite = false;
  int64_t watch_seconds = 0;
};

}  // namespace

void add_report_command(CLI::App& app) {
  const auto given = std::make_shared<ReportCommand>();
  CLI::App* command = app.add_subcommand(
      "report", "Write an HTML page with charts of a run, or of several to compare");
  command->add_option("RUN", given->runs, "Folder of a run, which may be running; may be repeated")
      ->required()
      ->type_name("");
  command
      ->add_option("--output", given->output,
                   "The page's file (default: report.html, in the folder of a single run); "
                   "replaces an earlier page")
      ->type_name("FILE");
  add_overwrite_option(*command, given->overwrite);
  CLI::Option* watch =
      command
          ->add_option("--watch", given->watch_seconds,
                       "Write the page every so many seconds until all steps of the runs are done; "
                       "it reloads itself. Comes after the runs")
          ->expected(0, 1)
          ->allow_extra_args(false)
          ->default_str("30")
          ->check(whole_number_from(1))
          ->type_name("SECONDS");
  command->callback([command, watch, given] {
    run_on_first_rank(command_line_of(*command), [&] {
      ReportOptions options;
      options.runs.assign(given->runs.begin(), given->runs.end());
      options.output = given->output;
      options.overwrite = given->overwrite;
      if (watch->count() > 0) options.watch_seconds = given->watch_seconds;
      write_report(options);
    });
  });
}

}  // namespace tessera
