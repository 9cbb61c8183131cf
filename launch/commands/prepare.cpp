#include "launch/commands/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "launch/data/prepare.h"
#include "launch/data/tokenizer.h"
#include "launch/process.h"

namespace tessera {
namespace {

void print(const PrepareOptions& options, const PrepareReport& report) {
  const double seconds = std::max(report.seconds, 1e-9);
  fmt::print(
      "wrote {0}.bin and {0}.idx: {1} documents, {2} tokens ({3}) from {4} bytes, {5:.1f} MB/s\n",
      options.output, report.documents, report.tokens, to_string(report.token_type), report.bytes,
      static_cast<double>(report.bytes) / 1e6 / seconds);
  std::fflush(stdout);
}

}  // namespace

void add_prepare_command(CLI::App& app) {
  const auto options = std::make_shared<PrepareOptions>();
  CLI::App* command = app.add_subcommand("prepare", "turn text files into a dataset of tokens");
  command->add_option(
      "--tokenizer", options->tokenizer,
      fmt::format("one of: {} (default: {})",
                  fmt::join(tokenizer_names().begin(), tokenizer_names().end(), ", "),
                  options->tokenizer));
  command->add_option("--input", options->inputs, "text files; each becomes one document")
      ->required()
      ->type_name("FILES");
  command
      ->add_option("--output", options->output,
                   "the dataset: PREFIX.bin and PREFIX.idx are written")
      ->required()
      ->type_name("PREFIX");
  command->add_flag("--overwrite", options->overwrite, "replace a dataset of the same name");
  command->callback([options] { run_on_first_rank([&] { print(*options, prepare(*options)); }); });
}

}  // namespace tessera
