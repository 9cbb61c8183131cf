#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/input_options.h"
#include "launch/cli/support/process.h"
#include "launch/support/files/whole_files.h"
#include "launch/support/text/print.h"
#include "launch/tokenizers/training/bpe_training.h"
#include "launch/tokenizers/training/count_words.h"
#include "launch/tokenizers/training/sentencepiece_training.h"
#include "launch/tokenizers/training/wordpiece_training.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct TokenizerTrainOptions {
  std::string kind;
  InputOptions input;
  std::vector<InputFile> files = {};  ///< the files that `input` matches
  std::string output;
  int64_t vocab_size = 0;
  bool cased = false;
  bool overwrite = false;
  int64_t min_count = 2;
  int64_t max_characters = 1000;
  std::vector<std::string> special;
  std::string model_type = "unigram";
  double character_coverage = 0.9995;

  Replace replace() const { return replace_if(overwrite); }
};

InputText text_of(const TokenizerTrainOptions& options) { return {options.files, options.input}; }

void say_if_smaller(const TokenizerTrainOptions& options, size_t num_tokens) {
  if (static_cast<int64_t>(num_tokens) < options.vocab_size) {
    print_out("fewer than the {} requested: no pair of tokens is left that occurs {} times\n",
              options.vocab_size, options.min_count);
  }
}

void train_wordpiece_file(const TokenizerTrainOptions& options) {
  const WordCounts words = count_bert_words(text_of(options), options.cased ? kCased : kUncased);
  const std::vector<std::string> tokens =
      train_wordpiece(words, {.vocab_size = options.vocab_size,
                              .min_count = options.min_count,
                              .max_characters = options.max_characters});
  write_whole_files({{options.output, vocabulary_text(tokens)}}, options.replace());
  print_out("wrote {}: {} tokens from {} different words; as a tokenizer: wordpiece{}:{}\n",
            options.output, tokens.size(), words.size(), options.cased ? "-cased" : "",
            options.output);
  say_if_smaller(options, tokens.size());
}

void train_bpe_folder(const TokenizerTrainOptions& options) {
  const std::string vocabulary = (fs::path(options.output) / "vocab.json").string();
  const std::string merges = (fs::path(options.output) / "merges.txt").string();
  require_replaceable(vocabulary, options.replace());
  require_replaceable(merges, options.replace());
  BpeTrainingOptions training{.vocab_size = options.vocab_size, .min_count = options.min_count};
  training.special.insert(training.special.begin(), options.special.begin(), options.special.end());
  const WordCounts words = count_byte_level_words(text_of(options));
  const BpeDescription bpe = train_bpe(words, training);
  write_bpe(options.output, bpe, options.replace());
  print_out("wrote {} and {}: {} tokens from {} different words; as a tokenizer: bpe:{}\n",
            vocabulary, merges, bpe.tokens.size(), words.size(), options.output);
  say_if_smaller(options, bpe.tokens.size());
}

void train_sentencepiece_file(const TokenizerTrainOptions& options) {
  write_whole_files(
      {{options.output,
        train_sentencepiece(text_of(options), {.vocab_size = options.vocab_size,
                                               .bpe = options.model_type == "bpe",
                                               .character_coverage = options.character_coverage})}},
      options.replace());
  print_out("wrote {}: {} tokens; as a tokenizer: sentencepiece:{}\n", options.output,
            options.vocab_size, options.output);
}

/// A value of `--kind`.
struct TrainedKind {
  std::string name;
  std::string help;
  /// Its options besides those of every kind.
  std::vector<std::string> options;
  void (*train)(const TokenizerTrainOptions&);
};

const std::vector<TrainedKind>& trained_kinds() {
  static const std::vector<TrainedKind> kinds = {
      {"wordpiece",
       "BERT's, writes a vocab.txt",
       {"--cased", "--min-count", "--max-characters"},
       train_wordpiece_file},
      {"bpe",
       "GPT-2's byte-level BPE, writes a folder with vocab.json and merges.txt",
       {"--min-count", "--special"},
       train_bpe_folder},
      {"sentencepiece",
       "SentencePiece, writes a .model",
       {"--model-type", "--character-coverage"},
       train_sentencepiece_file},
  };
  return kinds;
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const TrainedKind& kind : trained_kinds()) names.push_back(kind.name);
  return names;
}

std::string kinds_help() {
  std::string help;
  for (const TrainedKind& kind : trained_kinds()) {
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", kind.name, kind.help);
  }
  return help;
}

/// Throws if an option was given that the kind does not support.
void check_options_of_kind(const CLI::App& command, const TrainedKind& kind) {
  constexpr std::string_view kOfEveryKind[] = {"--kind",       "--input",          "--format",
                                               "--field",      "--skip-malformed", "--output",
                                               "--vocab-size", "--overwrite"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const auto takes = [&](const auto& names) {
      return std::find(std::begin(names), std::end(names), name) != std::end(names);
    };
    require(option->count() == 0 || takes(kOfEveryKind) || takes(kind.options),
            "tokenizer train: {1} does not apply to --kind {0}: remove it", kind.name, name);
  }
}

void train(const CLI::App& command, TokenizerTrainOptions options) {
  for (const TrainedKind& kind : trained_kinds()) {
    if (kind.name != options.kind) continue;
    check_options_of_kind(command, kind);
    options.files = find_input_files(options.input, "tokenizer train");
    if (options.kind != "bpe") require_replaceable(options.output, options.replace());
    kind.train(options);
  }
}

}  // namespace

void add_tokenizer_command(CLI::App& app) {
  const auto options = std::make_shared<TokenizerTrainOptions>();
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Train a tokenizer");
  tokenizer->require_subcommand(1);
  CLI::App* command = tokenizer->add_subcommand("train", "Train a vocabulary on text");
  add_choice(*command, "--kind", options->kind, kind_names(), kinds_help())->required();
  add_input_options(*command, options->input);
  command
      ->add_option("--vocab-size", options->vocab_size,
                   "Size of the vocabulary, including special tokens")
      ->required()
      ->check(whole_number_from(1));
  command->add_option("--output", options->output, "Path of the vocabulary to write")
      ->required()
      ->type_name("PATH");
  command->add_flag("--cased", options->cased, "Keep case and accents");
  command
      ->add_option("--min-count", options->min_count,
                   "Minimum count of a pair of tokens to be merged")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command
      ->add_option("--max-characters", options->max_characters,
                   "Maximum number of characters; keeps the most frequent")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command
      ->add_option("--special", options->special,
                   "An additional special token such as <|im_start|>, placed before <|endoftext|>; "
                   "may be repeated")
      ->type_name("TOKEN")
      // One at a time, because "[PAD]" alone would otherwise be parsed as a list.
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  add_choice(*command, "--model-type", options->model_type, {"unigram", "bpe"},
             "SentencePiece's algorithm");
  command
      ->add_option("--character-coverage", options->character_coverage,
                   "Fraction of the text that SentencePiece's character set must cover, "
                   "0.98 to 1")
      ->check(CLI::Range(0.98, 1.0).description(""))
      ->capture_default_str();
  add_overwrite_option(*command, options->overwrite);
  command->callback([options, command] {
    run_on_first_rank(command_line_of(*command), [&] { train(*command, *options); });
  });
}

}  // namespace tessera
