#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/config/config_changes.h"
#include "launch/config/load_config.h"
#include "launch/config/validate.h"
#include "launch/config/write_config.h"
#include "launch/support/text/print.h"
#include "launch/train/start/derive_config.h"

namespace tessera {
namespace {

struct ConfigOptions {
  std::string config;
  std::string other;
  std::vector<std::string> overrides;
  int ranks = 0;
  bool markdown = false;
};

void print_differences(const RunConfig& config, const RunConfig& other) {
  const std::vector<std::string> changes = config_changes(config, other);
  for (const std::string& change : changes) print_out("{}\n", change);
  if (changes.empty()) print_out("no key differs\n");
}

void print_config(const ConfigOptions& options) {
  if (options.markdown) {
    print_text(config_markdown());
    return;
  }
  require(!options.config.empty(), "config: give a YAML file, or --markdown");
  const RunConfig config = load_config(options.config, options.overrides);
  if (!options.other.empty()) return print_differences(config, load_config(options.other));
  if (options.ranks == 0) {
    print_text(to_yaml(config));
    return;
  }
  const DerivedConfig derived = derive_config(config, options.ranks, DeriveFor::planning);
  validate(derived.config, options.ranks);
  print_text(to_yaml(derived.config, derived.origins));
}

}  // namespace

void add_config_command(CLI::App& app) {
  const auto options = std::make_shared<ConfigOptions>();
  CLI::App* command =
      app.add_subcommand("config", "Check a configuration and print all of its keys");
  command->add_option("config", options->config, "YAML file of a run")->type_name("CONFIG");
  command->add_option("--set", options->overrides, "Override a key, as for train")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--ranks", options->ranks,
                   "Also derive its automatic keys from the data and check it for this number of "
                   "ranks")
      ->check(whole_number_from(1));
  command
      ->add_option("--diff", options->other,
                   "Print only the keys whose values differ in this YAML file, and both values; "
                   "--set applies to CONFIG")
      ->type_name("OTHER");
  command->add_flag("--markdown", options->markdown, "Print a Markdown reference of all keys");
  command->callback([command, options] {
    run_on_first_rank(command_line_of(*command), [&] { print_config(*options); });
  });
}

}  // namespace tessera
