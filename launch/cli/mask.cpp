#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launch/checkpoint/attention_mask_file.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/config/load_config.h"
#include "launch/config/validate_kind.h"
#include "launch/data/sample_source.h"
#include "launch/support/files/whole_files.h"
#include "launch/support/text/html.h"
#include "launch/support/text/print.h"
#include "launch/tools/mask/mask_page.h"
#include "launch/tools/mask/mask_view.h"
#include "models/architecture.h"

namespace tessera {
namespace {

struct MaskCommand {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<int64_t> documents;
  std::string html;
  bool overwrite = false;
  bool json = false;
};

/// Whether the documents of a row do not attend to each other in training.
bool separates_documents(const RunConfig& config) {
  if (traits_of(config.model).objective != Objective::causal_lm) return true;
  return packing_of(config) == Packing::documents || config.data.separate_documents;
}

void print_mask(const MaskCommand& command) {
  const RunConfig config = load_config(command.config, command.overrides);
  ModelConfig model = config.model;
  check_masks(model);
  load_attention_mask(model);
  const bool one = command.documents.empty();
  const MaskView view =
      view_mask(model, one ? std::vector<int64_t>{longest_row(model)} : command.documents,
                separates_documents(config));
  if (!command.html.empty()) {
    write_whole_files({{command.html, to_html(view, command.config)}},
                      replace_page(command.html, command.overwrite));
  }
  print_text(command.json ? to_text(to_json(view)) + "\n" : to_string(view));
}

}  // namespace

void add_mask_command(CLI::App& app) {
  const auto options = std::make_shared<MaskCommand>();
  CLI::App* command =
      app.add_subcommand("mask", "Draw what the layers of a model hide from attention");
  command->add_option("config", options->config, "YAML file of the run")
      ->required()
      ->type_name("CONFIG");
  command
      ->add_option("--documents", options->documents,
                   "Lengths of the documents of a row, as in 5,3,8 (default: one of "
                   "model.seq_length tokens)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number_from(1))
      ->type_name("N,N");
  command->add_option("--set", options->overrides, "Override a key, as for train")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--html", options->html, "Also write a page with a picture to this file")
      ->type_name("FILE");
  add_overwrite_option(*command, options->overwrite);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([command, options] {
    run_on_first_rank(command_line_of(*command), [&] { print_mask(*options); });
  });
}

}  // namespace tessera
