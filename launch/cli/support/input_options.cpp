#include "launch/cli/support/input_options.h"

#include "launch/cli/support/command_line.h"

namespace tessera {
namespace {

constexpr int kMostInputs = 1 << 20;  // more words than a command line has room for, mostly

}  // namespace

void add_input_options(CLI::App& command, InputOptions& options, const char* name) {
  command
      .add_option(name, options.inputs,
                  "Files, glob patterns such as 'data/*.jsonl.gz', or - for standard input; gzip "
                  "and zstd are decompressed")
      ->required()
      ->type_name("FILES")
      // Disables lists in brackets, because "[ab]" is a pattern. The number is bounded because
      // CLI11 otherwise reads one word at a time.
      ->expected(1, kMostInputs)
      ->allow_extra_args(false);
  add_choice(
      command, "--format", options.formats,
      {{"auto", InputFormats::by_name},
       {"text", InputFormats::text},
       {"jsonl", InputFormats::jsonl},
       {"parquet", InputFormats::parquet}},
      "Format of the input: jsonl has one object per line, parquet is a table; auto is jsonl "
      "for .jsonl and .json files, compressed or not, parquet for .parquet files, and text "
      "otherwise");
  command
      .add_option("--field", options.field,
                  "Field of each JSON object, or column of the table, that contains the text "
                  "(default: text)")
      ->type_name("NAME");
  command.add_flag("--skip-malformed", options.skip_malformed,
                   "Skip lines that are not such JSON objects, and rows without such a text");
}

}  // namespace tessera
