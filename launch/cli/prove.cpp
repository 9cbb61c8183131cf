#include "launch/tools/prove/prove.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/support/files/temporary_folder.h"
#include "launch/support/text/json.h"
#include "launch/support/text/print.h"
#include "launch/tools/prove/shrink.h"

namespace tessera {
namespace {

struct ProveCommand {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 4;
  bool json = false;
};

void print_check(const Check& check) {
  if (check.failure) {
    print_out("FAILED      {}:\n            {}\n", check.what, *check.failure);
  } else {
    print_out("ok          {}\n", check.what);
  }
}

/// Returns whether all checks passed.
bool run_prove(const ProveCommand& command) {
  constexpr int kMostRanks = 12;
  require(command.ranks <= kMostRanks, "prove: --ranks is {}, but must be at most {}",
          command.ranks, kMostRanks);
  const TemporaryFolder folder("tessera-prove");
  const ConfigToProve loaded = load_to_prove(command.config, command.overrides, folder.path());
  ProveOptions options{.ranks = command.ranks, .folder = folder.path()};
  if (!command.json) options.report = print_check;
  Certificate certificate = prove(loaded.config, options);
  certificate.left_out.insert(certificate.left_out.begin(), loaded.made_up.begin(),
                              loaded.made_up.end());
  print_text(command.json ? to_text(to_json(certificate)) + "\n" : to_string(certificate));
  return certificate.failures() == 0;
}

}  // namespace

void add_prove_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ProveCommand>();
  CLI::App* command = app.add_subcommand(
      "prove", "Check that a small version of a run gives the same results on every layout");
  command->add_option("config", options->config, "YAML file of the run")
      ->required()
      ->type_name("CONFIG");
  command->add_option("--ranks", options->ranks, "Check layouts of up to this many ranks")
      ->check(whole_number_from(1))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--set", options->overrides, "Override a key, as for train")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([command, options, &exit_code] {
    run_on_first_rank(command_line_of(*command), [&] {
      if (!run_prove(*options)) exit_code = EXIT_FAILURE;
    });
  });
}

}  // namespace tessera
