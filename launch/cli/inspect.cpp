#include "launch/tools/inspect/inspect.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "launch/cli/commands.h"
#include "launch/cli/support/checkpoint_choice.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/support/text/print.h"
#include "launch/tokenizers/tokenizer_spec.h"

namespace tessera {

void add_inspect_command(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  const auto choice = std::make_shared<CheckpointChoice>();
  CLI::App* command = app.add_subcommand(
      "inspect", "Describe a checkpoint, run, dataset, tokenizer or safetensors file");
  command
      ->add_option("PATH", options->path,
                   "Folder of a run or checkpoint, prefix of a dataset, .safetensors file, Hugging "
                   "Face folder, or tokenizer: " +
                       tokenizer_specs_allowed())
      ->required();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "For a dataset: show its first documents as text; " + tokenizer_specs_allowed())
      ->type_name("SPEC");
  command
      ->add_option("--documents", options->documents,
                   "For a dataset: number of documents to show (default: 3)")
      ->type_name("N")
      ->check(whole_number_from(0));
  command
      ->add_option("--document", options->document,
                   "For a dataset: number of a document, from 0, to show completely")
      ->type_name("N")
      ->check(whole_number_from(0))
      ->excludes("--documents");
  command
      ->add_option("--sample", options->sample,
                   "For a run or its config.yaml: number of a training sample to show, as messages "
                   "of the run name it: its ids, text, targets and labels")
      ->type_name("N")
      ->check(whole_number_from(0));
  command->add_option("--text", options->text, "For a tokenizer: show the tokens of a text")
      ->type_name("TEXT");
  add_step_options(*command, *choice);
  command->callback([command, options, choice] {
    run_on_first_rank(command_line_of(*command), [&] {
      choice->run = options->path;
      if (choice->best || choice->step) options->path = resolve(*choice).string();
      print_text(inspect(*options));
    });
  });
}

}  // namespace tessera
