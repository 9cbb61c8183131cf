#include "launch/commands/generate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "core/error.h"
#include "launch/checkpoint/find.h"
#include "launch/commands/command_line.h"
#include "launch/data/tokenizer.h"
#include "launch/generate/generator.h"
#include "launch/process.h"
#include "parallel/exchange.h"
#include "parallel/host_threads.h"

namespace tessera {
namespace {

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  int64_t max_tokens = 200;
  SamplingOptions sampling;
};

std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
  const Json& extra = checkpoint.manifest().extra;
  require(extra.contains("tokenizer") && extra["tokenizer"].is_string(),
          "checkpoint {} does not say which tokenizer it was trained with",
          checkpoint.path().string());
  return make_tokenizer(extra["tokenizer"].get<std::string>());
}

void generate(const GenerateOptions& options, Communicator& world) {
  std::unique_ptr<Generator> generator;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<int32_t> prompt;
  const auto path = resolve_checkpoint(options.checkpoint, world);
  apply_host_threads(world);
  all_or_none(world, [&] {
    check(options.sampling);
    Checkpoint checkpoint = Checkpoint::open(path);
    tokenizer = tokenizer_of(checkpoint);
    generator = std::make_unique<Generator>(checkpoint, world);
    prompt = tokenizer->encode(options.prompt);
    // A document begins where the one before it ended.
    if (prompt.empty()) prompt.push_back(tokenizer->end_of_document());
  });

  const bool prints = world.rank() == 0;
  const auto print = [&](std::string_view text) {
    if (!prints) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  print(options.prompt);
  SamplingOptions sampling = options.sampling;
  sampling.vocab_size = tokenizer->vocab_size();
  // All ranks see the same tokens and logits, so that none fails alone.
  all_or_none(world, [&] {
    generator->generate(prompt, options.max_tokens, sampling, [&](int32_t token) {
      if (token == tokenizer->end_of_document()) return false;
      print(tokenizer->decode({&token, 1}));
      return true;
    });
  });
  print("\n");
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a trained model");
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "A run's folder (its newest whole checkpoint) or a step's")
      ->required()
      ->type_name("RUN_OR_STEP");
  command->add_option("--prompt", options->prompt, "The text to continue; may be empty")
      ->required();
  command->add_option("--max-tokens", options->max_tokens, "Tokens to write at most")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command
      ->add_option("--temperature", options->sampling.temperature,
                   "Below 1 the likelier tokens gain; 0 takes the likeliest")
      ->check(CLI::Number)
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "Only the K likeliest tokens; 0 is all")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command
      ->add_option("--top-p", options->sampling.top_p,
                   "Only the likeliest tokens that hold this much probability")
      ->check(CLI::Number)
      ->capture_default_str();
  command->add_option("--seed", options->sampling.seed, "Another seed, another text")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command->callback([options, &exit_code] {
    exit_code = run_on_ranks([&](Communicator& world) { generate(*options, world); });
  });
}

}  // namespace tessera
