#include "launch/data/prepare/prepare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/input_options.h"
#include "launch/cli/support/process.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/redrawn_line.h"
#include "launch/support/text/terminal.h"
#include "launch/tokenizers/tokenizer_spec.h"
#include "parallel/host/host_threads.h"

namespace tessera {
namespace {

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

/// "[#####...] 47%  53.1 MB/s  12s left", or "812 MB  53.1 MB/s" if the total is unknown.
std::string progress_text(const PrepareProgress& progress) {
  const std::string speed =
      fmt::format("{:.1f} MB/s", megabytes(progress.text) / std::max(progress.seconds, 1e-9));
  if (!progress.total) return fmt::format("{:.0f} MB  {}", megabytes(progress.text), speed);
  const double done = std::max(static_cast<double>(progress.read), 1.0) /
                      std::max(static_cast<double>(*progress.total), 1.0);
  return fmt::format("{} {:.0f}%  {}  {} left", progress_bar(done), 100.0 * done, speed,
                     human_duration(progress.seconds * (1.0 - done) / done));
}

PrepareReport prepare_watched(PrepareOptions options) {
  if (options.threads == 0) options.threads = choose_host_threads({find_rank_cpus()}, 0).threads;
  RedrawnLine line(stderr, stderr_is_watched());
  options.on_progress = [&](const PrepareProgress& progress) {
    if (line.is_due()) line.draw(progress_text(progress));
  };
  return prepare(options);
}

/// Prints nothing for a count of 0.
void print_line(int64_t count, std::string_view what) {
  if (count > 0) fmt::print("{} {}\n", count, what);
}

void print(const PrepareOptions& options, const PrepareReport& report) {
  const double seconds = std::max(report.seconds, 1e-9);
  fmt::print(
      "wrote {0}.bin, .idx, .meta.json and .tokenizer.json: {1} documents, {2} sequences, {3} "
      "tokens ({4}) from {5} "
      "bytes, {6:.1f} MB/s\n",
      options.output, report.documents, report.sequences, report.tokens,
      to_string(report.token_type), report.bytes, megabytes(report.bytes) / seconds);
  if (report.unknown > 0) {
    fmt::print("{} tokens are unknown ({:.2f}%)\n", report.unknown,
               100.0 * static_cast<double>(report.unknown) / static_cast<double>(report.tokens));
  }
  print_line(report.invalid, "times the text was not valid UTF-8; it was replaced or left out");
  print_line(report.empty_documents, "documents had no token and were left out");
  if (report.malformed_lines > 0) {
    fmt::print("{} malformed lines were skipped; the first: {}\n", report.malformed_lines,
               report.first_malformed);
  }
  std::fflush(stdout);
}

/// `documents` is used if the option is given.
void add_document_options(CLI::App& command, PrepareOptions& options, Documents& documents) {
  command
      .add_option("--tokenizer", options.tokenizer,
                  fmt::format("{} (default: {}); with none the inputs are ids in decimal, "
                              "separated by white space, and each line is a document",
                              tokenizer_specs_allowed(), options.tokenizer))
      ->type_name("SPEC");
  command
      .add_option("--vocab-size", options.vocab_size,
                  "With --tokenizer none: number of ids, which are 0 to N - 1")
      ->type_name("N")
      ->check(whole_number_from(1));
  add_choice(
      command, "--documents", documents,
      {{"file", Documents::file}, {"paragraph", Documents::paragraph}, {"line", Documents::line}},
      "What counts as a document in text files: a file, a paragraph (ends at a blank line) or a "
      "line; in JSON Lines every object is one");
  add_choice(command, "--sentences", options.sentences,
             {{"none", Sentences::none}, {"line", Sentences::line}},
             "What counts as a sequence: a whole document (none) or each of its lines, as sentence "
             "pairs need");
  command.add_flag("--append-eod", options.append_end,
                   "Append the tokenizer's end-of-document token to each document, as GPT needs");
}

}  // namespace

void add_prepare_command(CLI::App& app) {
  const auto options = std::make_shared<PrepareOptions>();
  options->threads = 0;  // all
  CLI::App* command = app.add_subcommand("prepare", "Tokenize text files into a dataset");
  add_input_options(*command, options->input);
  const auto documents = std::make_shared<Documents>(Documents::file);
  add_document_options(*command, *options, *documents);
  command
      ->add_option("--output", options->output,
                   "Write the dataset to PREFIX.bin, .idx, .meta.json and .tokenizer.json")
      ->required()
      ->type_name("PREFIX");
  command->add_flag("--overwrite", options->overwrite, "Replace a dataset of the same name");
  command
      ->add_option(
          "--threads", options->threads,
          "Number of threads (default: one per available core); the output does not depend on it")
      ->type_name("N")
      ->check(whole_number_from(1));
  command->callback([command, options, documents] {
    if (command->count("--documents") > 0) options->documents = *documents;
    run_on_first_rank(command_line_of(*command),
                      [&] { print(*options, prepare_watched(*options)); });
  });
}

}  // namespace tessera
