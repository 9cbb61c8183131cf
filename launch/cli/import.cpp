#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
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
#include "launch/huggingface/import/import_model.h"
#include "launch/support/text/json.h"
#include "launch/support/text/number_text.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {
namespace {

/// Prints the section of a configuration that trains the imported model.
void print_section(const std::string& run) {
  // JSON strings are valid YAML.
  fmt::print("\nto continue training, in a configuration:\n\ncheckpoint:\n  from: {}\n",
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
  fmt::print("wrote {}: {} from {}\n", report.checkpoint.string(), report.model_class,
             options.from.string());
  if (report.identity.kind == kNoTokenizer) {
    fmt::print("tokenizer: {}; pass ids to commands, with --ids\n", to_string(report.identity));
  } else {
    fmt::print("tokenizer: {}, from {}\n", to_string(report.identity), report.tokenizer);
  }
  if (!report.left_out.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : report.left_out) names.push_back(quote(name));
    fmt::print("left out, since {} has no such head: {}\n", report.model_class,
               fmt::join(names, ", "));
  }
  for (const std::string& note : report.notes) fmt::print("note: {}\n", note);
  print_section(options.to.string());
  std::fflush(stdout);
}

}  // namespace

void add_import_command(CLI::App& app) {
  const auto options = std::make_shared<ImportOptions>();
  const auto special = std::make_shared<std::vector<std::string>>();
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
  command->callback([command, options, special] {
    run_on_first_rank(command_line_of(*command), [&] {
      for (const std::string& text : *special) {
        const auto [name, id] = special_token(text);
        options->special_tokens[name] = id;
      }
      import_and_print(*options);
    });
  });
}

}  // namespace tessera
