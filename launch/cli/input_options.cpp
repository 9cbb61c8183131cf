#include "launch/cli/input_options.h"

#include "launch/cli/command_line.h"

namespace tessera {
namespace {

constexpr int kMostInputs = 1 << 20;  // more words than a command line has room for, mostly

}  // namespace

void add_input_options(CLI::App& command, InputOptions& options) {
  command
      .add_option("--input", options.inputs,
                  "files, patterns of their names as 'data/*.jsonl.gz', or - for standard input; "
                  "gzip and zstd are decompressed")
      ->required()
      ->type_name("FILES")
      // Disables lists in brackets, because "[ab]" is a pattern. The number is bounded because
      // CLI11 otherwise reads one word at a time.
      ->expected(1, kMostInputs)
      ->allow_extra_args(false);
  add_choice(command, "--format", options.formats,
             {{"auto", InputFormats::by_name},
              {"text", InputFormats::text},
              {"jsonl", InputFormats::jsonl}},
             "jsonl: an object a line; text; or auto: jsonl for names in .jsonl or "
             ".json, with or without .gz or .zst, else text");
  command
      .add_option("--field", options.field,
                  "the field of each JSON object that is the text (default: text)")
      ->type_name("NAME");
  command.add_flag("--skip-malformed", options.skip_malformed,
                   "leave out lines that are not such JSON");
}

}  // namespace tessera
