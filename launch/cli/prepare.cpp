#include "launch/data/prepare/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/exit_code.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/input_options.h"
#include "launch/cli/support/process.h"
#include "launch/data/indexed/check_dataset.h"
#include "launch/data/indexed/dataset_statistics.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/print.h"
#include "launch/support/text/redrawn_line.h"
#include "launch/support/text/terminal.h"
#include "launch/tokenizers/tokenizer_spec.h"
#include "parallel/host/host_threads.h"

namespace tessera {
namespace {

constexpr int kMostPrefixes = 1 << 20;

/// Without a terminal, progress is a line each time that so much time has passed.
constexpr std::chrono::seconds kBetweenLines{30};

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

/// "12 tokens", "12.3 M tokens"
std::string amount_of(double amount, std::string_view what) {
  if (amount < 999.5) return fmt::format("{:.0f} {}", amount, what);
  return fmt::format("{} {}", human_amount(amount), what);
}

/// "47%  2.12 GB of 4.50 GB  12.3 M tokens/s  1m02s left  890 M tokens  1.23 M documents", without
/// what needs the total if that is unknown. A narrow terminal shows the beginning.
std::string progress_text(const PrepareProgress& progress) {
  const auto tokens = static_cast<double>(progress.tokens);
  const auto read = static_cast<double>(progress.read);
  const std::string speed = amount_of(tokens / std::max(progress.seconds, 1e-9), "tokens/s");
  const std::string counts =
      fmt::format("{}  {}", amount_of(tokens, "tokens"),
                  amount_of(static_cast<double>(progress.documents), "documents"));
  if (!progress.total) return fmt::format("{}B  {}  {}", human_amount(read), speed, counts);
  const auto total = std::max(static_cast<double>(*progress.total), 1.0);
  const double done = std::clamp(read / total, 1.0 / total, 1.0);
  return fmt::format("{:.0f}%  {}B of {}B  {}  {} left  {}", 100.0 * done, human_amount(read),
                     human_amount(total), speed,
                     human_duration(progress.seconds * (1.0 - done) / done), counts);
}

PrepareReport prepare_watched(PrepareOptions options, bool quiet) {
  if (options.threads == 0) options.threads = choose_host_threads({find_rank_cpus()}, 0).threads;
  if (quiet) return prepare(options);
  RedrawnLine line(STDERR_FILENO, stderr_is_watched(), kBetweenLines);
  options.on_progress = [&](const PrepareProgress& progress) {
    if (line.is_due()) line.draw(progress_text(progress));
  };
  return prepare(options);
}

void print_report(const PrepareOptions& options, const PrepareReport& report) {
  const double seconds = std::max(report.seconds, 1e-9);
  print_out(
      "wrote {0}.bin, .idx, .meta.json and .tokenizer.json: {1} documents, {2} sequences, {3} "
      "tokens ({4}) from {5} "
      "bytes, {6:.1f} MB/s\n",
      options.output, report.documents, report.sequences, report.tokens,
      to_string(report.token_type), report.bytes_read, megabytes(report.bytes_read) / seconds);
  if (report.malformed_lines > 0) {
    print_out("{} malformed lines or rows were skipped; the first: {}\n", report.malformed_lines,
              report.first_malformed);
  }
  const IndexedDataset dataset(options.output);
  print_text(describe_statistics(dataset, read_metadata(dataset)));
}

/// Throws, with the exit code of damaged data, after all datasets were checked, if any has a fault.
void check_all(const std::vector<std::string>& prefixes, int64_t vocab_size, bool quiet) {
  std::vector<std::string> faults;
  for (const std::string& prefix : prefixes) {
    try {
      RedrawnLine line(STDERR_FILENO, !quiet && stderr_is_watched());
      const DatasetCheck check =
          check_dataset(prefix, vocab_size, [&](int64_t done, int64_t total) {
            if (!line.is_due()) return;
            line.draw(fmt::format("{}: {:.0f}%", prefix,
                                  100.0 * static_cast<double>(done) / static_cast<double>(total)));
          });
      line.clear();
      print_out("{}\n", to_string(check));
    } catch (const Error& error) {
      faults.emplace_back(error.what());
    }
  }
  if (faults.empty()) return;
  std::string message = fmt::format("{}", fmt::join(faults, "\n"));
  if (prefixes.size() > 1) {
    message =
        fmt::format("{} of {} datasets have a fault:\n{}", faults.size(), prefixes.size(), message);
  }
  throw CodedError(message, ExitCode::data);
}

void check(const CLI::App& command, const std::vector<std::string>& prefixes,
           const PrepareOptions& options, bool quiet) {
  constexpr std::string_view kApply[] = {"--check", "--tokenizer", "--vocab-size", "--quiet"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    require(option->count() == 0 || std::ranges::find(kApply, name) != std::end(kApply),
            "prepare: {} does not apply to --check, which writes nothing: remove it", name);
  }
  const bool any = command.count("--tokenizer") + command.count("--vocab-size") == 0;
  const int64_t vocab_size =
      any ? IndexedDataset::kAnyVocabulary : open_tokenizer(options)->vocab_size();
  check_all(prefixes, vocab_size, quiet);
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
      "line; in JSON Lines every object is one, in Parquet every row");
  add_choice(command, "--sentences", options.sentences,
             {{"none", Sentences::none}, {"line", Sentences::line}},
             "What counts as a sequence: a whole document (none) or each of its lines, as sentence "
             "pairs need");
  command.add_flag("--append-eod", options.append_end,
                   "Append the tokenizer's end-of-document token to each document, as GPT needs");
}

void add_corpus_options(CLI::App& command, PrepareOptions& options) {
  command.add_flag("--drop-duplicates", options.drop_duplicates,
                   "Leave out documents that repeat an earlier one, which otherwise are only "
                   "counted");
  command
      .add_option("--near-duplicates", options.near_duplicates,
                  "Also count documents as similar to an earlier one as this, 0.3 to 1, by MinHash "
                  "of 5 successive words; about 500 bytes of memory a document")
      ->type_name("SIMILARITY")
      ->check(CLI::Range(0.3, 1.0).description(""));
  command
      .add_option("--shuffle", options.shuffle_seed,
                  "Store the documents in a random order that depends on SEED; needs twice the "
                  "space on the disk")
      ->type_name("SEED")
      ->check(whole_number_from(0));
}

/// Adds --check, without which --input and --output are required.
void add_check_option(CLI::App& command, std::vector<std::string>& prefixes) {
  CLI::Option* input = command.get_option("--input");
  CLI::Option* output = command.get_option("--output");
  command
      .add_option(
          "--check", prefixes,
          "Instead of preparing: read all of these datasets, which another program may have "
          "made, and name the first fault of each; with --tokenizer, also ids beyond its "
          "vocabulary")
      ->type_name("PREFIXES")
      ->expected(1, kMostPrefixes)
      // Options are read before required ones are missed.
      ->each([input, output](const std::string& /*prefix*/) {
        input->required(false);
        output->required(false);
      });
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
  add_overwrite_option(*command, options->overwrite);
  add_corpus_options(*command, *options);
  command
      ->add_option(
          "--threads", options->threads,
          "Number of threads (default: one per available core); the output does not depend on it")
      ->type_name("N")
      ->check(whole_number_from(1));
  const auto quiet = std::make_shared<bool>(false);
  command->add_flag("--quiet", *quiet, "Show no progress");
  const auto prefixes = std::make_shared<std::vector<std::string>>();
  add_check_option(*command, *prefixes);
  command->callback([command, options, documents, quiet, prefixes] {
    if (command->count("--documents") > 0) options->documents = *documents;
    run_on_first_rank(command_line_of(*command), [&] {
      if (!prefixes->empty()) {
        check(*command, *prefixes, *options, *quiet);
      } else {
        print_report(*options, prepare_watched(*options, *quiet));
      }
    });
  });
}

}  // namespace tessera
