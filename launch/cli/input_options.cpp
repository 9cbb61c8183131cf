#include "launch/cli/input_options.h"

#include <CLI/CLI.hpp>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 3> kFormats = {"auto", "text", "jsonl"};

constexpr int kMostInputs = 1 << 20;  // more words than a command line has room for, mostly

}  // namespace

void add_input_options(CLI::App& command, InputOptions& options) {
  command
      .add_option("--input", options.inputs,
                  "files, patterns of their names as 'data/*.jsonl.gz', or - for standard input; "
                  "gzip and zstd are decompressed")
      ->required()
      ->type_name("FILES")
      // No list in brackets, since "[ab]" is a pattern. The number is bounded because CLI11, if it
      // is not, then takes one word at a time.
      ->expected(1, kMostInputs)
      ->allow_extra_args(false);
  command
      .add_option("--format",
                  "jsonl: an object a line; text; or auto (default): jsonl for names in .jsonl or "
                  ".json, with or without .gz or .zst, else text")
      ->type_name("auto|text|jsonl")
      ->check(set_from(kFormats, options.formats), "");
  command
      .add_option("--field", options.field,
                  "the field of each JSON object that is the text (default: text)")
      ->type_name("NAME");
  command.add_flag("--skip-malformed", options.skip_malformed,
                   "leave out lines that are not such JSON");
}

}  // namespace tessera
