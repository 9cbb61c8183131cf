#include "launch/commands/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>

#include "launch/data/prepare.h"
#include "launch/process.h"
#include "launch/tokenizer/tokenizer_spec.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 3> kDocuments = {"file", "paragraph", "line"};
constexpr std::array<std::string_view, 2> kSentences = {"none", "line"};

/// Accepts one of `words`, and sets `value` to the one of its place.
template <typename Enum, size_t N>
std::function<std::string(const std::string&)> set_from(
    const std::array<std::string_view, N>& words, Enum& value) {
  return [&words, &value](const std::string& text) -> std::string {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) {
      return fmt::format("'{}' is none of: {}", text, fmt::join(words, ", "));
    }
    value = static_cast<Enum>(found - words.begin());
    return "";
  };
}

/// Said only where there is something to say.
void print_line(int64_t count, std::string_view what) {
  if (count > 0) fmt::print("{} {}\n", count, what);
}

void print(const PrepareOptions& options, const PrepareReport& report) {
  const double seconds = std::max(report.seconds, 1e-9);
  fmt::print(
      "wrote {0}.bin and {0}.idx: {1} documents, {2} sequences, {3} tokens ({4}) from {5} bytes, "
      "{6:.1f} MB/s\n",
      options.output, report.documents, report.sequences, report.tokens,
      to_string(report.token_type), report.bytes,
      static_cast<double>(report.bytes) / 1e6 / seconds);
  if (report.unknown > 0) {
    fmt::print("{} tokens are unknown ({:.2f}%)\n", report.unknown,
               100.0 * static_cast<double>(report.unknown) / static_cast<double>(report.tokens));
  }
  print_line(report.invalid, "times the text was not valid UTF-8; that was left out");
  print_line(report.empty_documents, "documents had no token and were left out");
  std::fflush(stdout);
}

}  // namespace

void add_prepare_command(CLI::App& app) {
  const auto options = std::make_shared<PrepareOptions>();
  CLI::App* command = app.add_subcommand("prepare", "turn text files into a dataset of tokens");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   fmt::format("{} (default: {})", tokenizer_specs_allowed(), options->tokenizer))
      ->type_name("SPEC");
  command->add_option("--input", options->inputs, "text files")->required()->type_name("FILES");
  command
      ->add_option("--documents",
                   "what is a document: a file (default), a paragraph (lines up to a blank one) or "
                   "a line")
      ->type_name("file|paragraph|line")
      ->check(set_from(kDocuments, options->documents), "");
  command
      ->add_option("--sentences",
                   "what is a sequence: a document (none, default) or a line of it, as pairs of "
                   "sentences need")
      ->type_name("none|line")
      ->check(set_from(kSentences, options->sentences), "");
  command
      ->add_option("--output", options->output,
                   "the dataset: PREFIX.bin and PREFIX.idx are written")
      ->required()
      ->type_name("PREFIX");
  command->add_flag("--overwrite", options->overwrite, "replace a dataset of the same name");
  command->callback([options] { run_on_first_rank([&] { print(*options, prepare(*options)); }); });
}

}  // namespace tessera
