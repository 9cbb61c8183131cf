#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/config/write_config.h"
#include "launch/huggingface/import/import_adapter.h"
#include "launch/huggingface/import/import_model.h"
#include "launch/support/text/json.h"
#include "launch/support/text/number_text.h"
#include "launch/support/text/print.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {
namespace {

/// Prints the section of a configuration that trains the imported model.
void print_section(const std::string& run) {
  // JSON strings are valid YAML.
  print_out("\nto continue training, in a configuration:\n\ncheckpoint:\n  from: {}\n",
            to_text(run));
}

/// "cls=2" as a name and an id.
std::pair<std::string, int32_t> special_token(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  const auto id = parse_integer(text.substr(std::min(equals + 1, text.size())));
  require(id && 0 <= *id && *id <= std::numeric_limits<int32_t>::max(),
          "--special-token is {}, but must be a name and an id, as in cls=2", quote(text));
  return {text.substr(0, equals), static_cast<int32_t>(*id)};
}

void import_and_print(const ImportOptions& options) {
  const ImportReport report = import_model(options);
  print_out("wrote {}: {} from {}\n", report.checkpoint.string(), report.model_class,
            options.from.string());
  if (report.identity.kind == kNoTokenizer) {
    print_out("tokenizer: {}; pass ids to commands, with --ids\n", to_string(report.identity));
  } else {
    print_out("tokenizer: {}, from {}\n", to_string(report.identity), report.tokenizer);
  }
  if (!report.left_out.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : report.left_out) names.push_back(quote(name));
    print_out("left out, since {} has no such head: {}\n", report.model_class,
              fmt::join(names, ", "));
  }
  for (const std::string& note : report.notes) print_out("note: {}\n", note);
  print_section(options.to.string());
}

void import_adapter_and_print(const ImportOptions& options, const std::string& base) {
  const AdapterImportReport report = import_adapter({options.from, base, options.to});
  print_out("wrote {}: the base model and {} low-rank adapters of rank {} from {}\n",
            report.checkpoint.string(), report.layers, report.rank, options.from.string());
  if (!report.modules.empty()) {
    print_out("whole modules of the adapters: {}\n", fmt::join(report.modules, ", "));
  }
  for (const std::string& note : report.notes) print_out("note: {}\n", note);
  print_section(options.to.string());
}

void import_any(const ImportOptions& options, const std::string& base) {
  const bool is_adapter = is_adapter_folder(options.from);
  require(is_adapter || base.empty(),
          "--base is for adapters that PEFT saved, but {} has no adapter_config.json: leave it out",
          options.from.string());
  require(
      !is_adapter || !base.empty(),
      "{} has the adapters of a model: add --base with the run of the model that they belong to",
      options.from.string());
  require(!is_adapter || (!options.tokenizer && !options.architecture),
          "--tokenizer and --architecture are the base model's: leave them out");
  is_adapter ? import_adapter_and_print(options, base) : import_and_print(options);
}

}  // namespace

void add_import_command(CLI::App& app) {
  const auto options = std::make_shared<ImportOptions>();
  const auto special = std::make_shared<std::vector<std::string>>();
  const auto base = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "import", "Import a model saved by Hugging Face transformers as a checkpoint");
  command->add_option("DIR", options->from, "Folder written by save_pretrained()")
      ->required()
      ->type_name("");
  command->add_option("--to", options->to, "Folder of the run to write the checkpoint to")
      ->required()
      ->type_name("RUN");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "Tokenizer to use instead of the folder's, as for `tessera prepare`")
      ->type_name("SPEC");
  command
      ->add_option("--special-token", *special,
                   "With --tokenizer none: the id of cls, sep, mask, pad, unk or eos, as in cls=2; "
                   "may be repeated")
      ->type_name("NAME=ID")
      ->allow_extra_args(false);
  command
      ->add_option("--architecture", options->architecture,
                   "Model class to use instead of config.json's")
      ->type_name("CLASS");
  command
      ->add_option("--base", *base,
                   "For low-rank adapters that PEFT saved in DIR: the run of their base model")
      ->type_name("RUN");
  command->callback([command, options, special, base] {
    run_on_first_rank(command_line_of(*command), [&] {
      for (const std::string& text : *special) {
        const auto [name, id] = special_token(text);
        options->special_tokens[name] = id;
      }
      import_any(*options, *base);
    });
  });
}

}  // namespace tessera
