#include "launch/cli/support/file_options.h"

#include <fmt/format.h>

#include <filesystem>

#include "launch/cli/support/command_line.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/files/replace.h"
#include "launch/support/same_on_ranks.h"
#include "launch/support/text/print.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

void add_file_options(CLI::App& command, FileOptions& options, const std::string& text) {
  CLI::Option* const input =
      command
          .add_option("--input", options.input,
                      "Predict for all texts of a .txt, .csv, .tsv, .json or .jsonl file instead")
          ->type_name("FILE")
          ->excludes(command.get_option(text))
          ->excludes(command.get_option("--ids"));
  CLI::Option* const output =
      command
          .add_option("--output", options.output,
                      "With --input: the .tsv, .csv or .jsonl file to write")
          ->type_name("FILE")
          ->needs(input);
  input->needs(output);
  add_overwrite_option(command, options.overwrite)->needs(input);
  command
      .add_option("--columns", options.columns,
                  "With --input: a column that has another name there, as in --columns "
                  "text=sentence (data.columns)")
      ->type_name("NAME=COLUMN")
      ->allow_extra_args(false)
      ->needs(input);
  command.add_option("--micro-batch", options.micro_batch, "With --input: texts computed at once")
      ->check(whole_number_from(1))
      ->capture_default_str()
      ->needs(input);
  command
      .add_option("--tensor", options.tensor,
                  "With --input under mpirun: ranks that share a replica of the model; replicas "
                  "share the texts")
      ->check(whole_number_from(1))
      ->capture_default_str()
      ->needs(input);
}

bool has_ids_or_file(const CLI::App& command, const FileOptions& options, const std::string& text) {
  const bool ids = command.count("--ids") > 0;
  if (!ids && !options.given() && command.count(text) == 0) {
    throw CLI::RequiredError(text + ", --ids or --input");
  }
  return ids;
}

void predict_for_file(const LoadedModel& loaded, const FileOptions& options,
                      FilePredictionOptions how, const OpenPrediction& open, Communicator& world) {
  std::unique_ptr<const FilePrediction> prediction;
  std::string checksum;
  all_or_none(world, [&] {
    how.input = options.input;
    for (const std::string& text : options.columns) {
      const size_t equals = text.find('=');
      require(equals < text.size(), "--columns is {}, but must be NAME=COLUMN", quote(text));
      how.columns[text.substr(0, equals)] = text.substr(equals + 1);
    }
    how.format = prediction_format(options.output, how.vectors);
    prediction = open(how);
    checksum = std::filesystem::is_directory(options.input)
                   ? fmt::format("{} files", prediction->size())
                   : checksum_of(MappedFile(options.input).bytes());
  });
  require_same_on_ranks(world, {{"the content of " + options.input, checksum}},
                        "Give all hosts the same file");
  predict_file(*prediction, *loaded.model, options.output, {world, *loaded.ranks->groups.dp},
               replace_if(options.overwrite));
  if (world.rank() != 0) return;
  print_out("{}: predictions for {} {}\n", options.output, prediction->size(),
            loaded.model->config().has_images() ? "images" : "texts");
}

}  // namespace tessera
