#include "launch/commands/tokenizer.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/commands/command_line.h"
#include "launch/files/file_pieces.h"
#include "launch/files/folders.h"
#include "launch/files/staged_file.h"
#include "launch/process.h"
#include "launch/tokenizer/count_words.h"
#include "launch/tokenizer/wordpiece_training.h"
#include "launch/tokenizer/wordpiece_vocabulary.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct TokenizerTrainOptions {
  std::string kind;
  std::vector<std::string> inputs;
  std::string output;
  bool cased = false;
  bool overwrite = false;
  WordPieceTrainingOptions training;
};

void check_output(const TokenizerTrainOptions& options) {
  for (const std::string& input : options.inputs) {
    std::error_code ignored;
    require(!fs::equivalent(input, options.output, ignored),
            "tokenizer train: input {} is also the output: choose another output", input);
  }
  require(options.overwrite || !fs::exists(options.output),
          "{}: exists and is not overwritten: choose another name, or allow it with --overwrite",
          options.output);
}

void train(const TokenizerTrainOptions& options) {
  check_readable(options.inputs, "tokenizer train");
  check_output(options);
  create_folder_of(options.output);
  const WordCounts words = count_words(options.inputs, options.cased);
  const std::vector<std::string> tokens = train_wordpiece(words, options.training);
  StagedFile file(options.output);
  file.write(vocabulary_text(tokens));
  file.close();
  file.publish();
  fmt::print("wrote {}: {} tokens from {} different words; as a tokenizer: wordpiece{}:{}\n",
             options.output, tokens.size(), words.size(), options.cased ? "-cased" : "",
             options.output);
  if (static_cast<int64_t>(tokens.size()) < options.training.vocab_size) {
    fmt::print("these are less than {}: no pair of tokens is left that comes {} times\n",
               options.training.vocab_size, options.training.min_count);
  }
  std::fflush(stdout);
}

}  // namespace

void add_tokenizer_command(CLI::App& app) {
  const auto options = std::make_shared<TokenizerTrainOptions>();
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Make a tokenizer");
  tokenizer->require_subcommand(1);
  CLI::App* command = tokenizer->add_subcommand("train", "Make a vocabulary from text");
  command->add_option("--kind", options->kind, "wordpiece: BERT's")
      ->required()
      ->type_name("KIND")
      ->check(CLI::IsMember({"wordpiece"}));
  command->add_option("--input", options->inputs, "Text files")->required()->type_name("FILES");
  command->add_option("--vocab-size", options->training.vocab_size, "Tokens, the special ones too")
      ->required()
      ->check(whole_number_from(1));
  command->add_option("--output", options->output, "The vocabulary: a token a line")
      ->required()
      ->type_name("FILE");
  command->add_flag("--cased", options->cased, "Keep upper case and accents");
  command
      ->add_option("--min-count", options->training.min_count,
                   "Join no two tokens that stand side by side less often than this")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command
      ->add_option("--max-characters", options->training.max_characters,
                   "Keep only so many characters, the most frequent")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace a file of the same name");
  command->callback([options] { run_on_first_rank([&] { train(*options); }); });
}

}  // namespace tessera
