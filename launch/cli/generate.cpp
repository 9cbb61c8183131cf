#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/model_json.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/device_options.h"
#include "launch/cli/support/file_options.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/cli/support/process.h"
#include "launch/data/datasets/chat_template.h"
#include "launch/data/datasets/text_pairs.h"
#include "launch/support/files/file_pieces.h"
#include "launch/support/text/terminal.h"
#include "launch/support/text/terminal_text.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tools/generate/generator.h"
#include "launch/tools/generate/target_generation.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_threads.h"

namespace tessera {
namespace {

struct GenerateOptions {
  std::string checkpoint;
  std::string prompt;
  bool ids = false;                   ///< whether the prompt is ids
  std::optional<ChatFormat> chat;     ///< the prompt is a message, and the model replies
  std::optional<std::string> system;  ///< the first message, with `chat`
  std::optional<int64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<int64_t> beams;
  double length_penalty = 1.0;
  bool truncate = false;
  SamplingOptions sampling;
  FileOptions file;  ///< instead of a prompt
  DeviceOptions devices;
};

constexpr int64_t kDefaultTokens = 200;

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Writes the tokens of a prompt and of its continuation.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual void start() = 0;
  virtual void add(int32_t token) = 0;
  virtual void finish() = 0;
};

/// Writes tokens as ids.
class IdWriter final : public Writer {
 public:
  explicit IdWriter(std::span<const int32_t> prompt) : prompt_(prompt) {}

  void start() override { print(fmt::format("{}", fmt::join(prompt_, " "))); }
  void add(int32_t token) override { print(fmt::format(" {}", token)); }
  void finish() override { print("\n"); }

 private:
  std::span<const int32_t> prompt_;
};

/// Writes a text token by token if the tokenizer allows it. Otherwise writes it at the end, because
/// later tokens may change how earlier ones decode.
class TextWriter final : public Writer {
 public:
  /// `text` is that of the prompt.
  TextWriter(const Tokenizer& tokenizer, std::string text, std::span<const int32_t> prompt)
      : tokenizer_(tokenizer),
        text_(std::move(text)),
        prompt_size_(prompt.size()),
        tokens_(prompt.begin(), prompt.end()) {}

  void start() override { show(text_); }

  void add(int32_t token) override {
    if (tokenizer_.decodes_piecewise()) {
      show(tokenizer_.decode({&token, 1}));
    } else {
      tokens_.push_back(token);
    }
  }

  void finish() override {
    if (!tokenizer_.decodes_piecewise()) {
      const std::string prompt = tokenizer_.decode(std::span(tokens_).first(prompt_size_));
      const std::string all = tokenizer_.decode(tokens_);
      const bool goes_on = all.compare(0, prompt.size(), prompt) == 0;
      show(goes_on ? all.substr(prompt.size()) : "\n" + all);
    }
    print("\n");
  }

 private:
  // A file or a pipe gets the bytes of the model, a terminal nothing that drives it.
  void show(std::string_view text) { print(is_watched_ ? terminal_.add(text) : std::string(text)); }

  const Tokenizer& tokenizer_;
  bool is_watched_ = stdout_is_watched();
  TerminalText terminal_;
  std::string text_;
  size_t prompt_size_;
  std::vector<int32_t> tokens_;
};

/// The value of --prompt or --ids, on all ranks; "-" stands for rank 0's standard input. Throws on
/// all ranks or none. Collective.
std::string read_prompt(const std::string& prompt, Communicator& world) {
  if (prompt != kStdin) return prompt;
  std::string text;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    for_each_piece(prompt, [&](std::string_view piece) { text += piece; });
  });
  return broadcast_string(world, text, 0);
}

/// A text to continue.
struct Prompt {
  std::vector<int32_t> tokens;
  std::optional<int32_t> end;  ///< the token that ends the continuation
};

Prompt encode_chat(const Tokenizer& tokenizer, const GenerateOptions& options,
                   const std::string& text) {
  const ChatTemplate chat = ChatTemplate::of(*options.chat, tokenizer);
  std::vector<Message> messages;
  if (options.system) messages.push_back({Role::system, *options.system});
  messages.push_back({Role::user, text});
  return {chat.prompt(messages, "--chat"), chat.reply_end()};
}

Prompt encode_prompt(const Tokenizer& tokenizer, const GenerateOptions& options,
                     const std::string& text, int64_t vocab_size) {
  if (options.chat) return encode_chat(tokenizer, options, text);
  const std::optional<int32_t> end = tokenizer.end_of_document();
  std::vector<int32_t> prompt =
      options.ids ? parse_ids(text, vocab_size, "--ids") : tokenizer.encode(text);
  if (!prompt.empty()) return {std::move(prompt), end};
  // A document begins where the previous one ended.
  require(end.has_value(),
          "{} is empty, and tokenizer {} has no end-of-document token to start from: pass a prompt",
          options.ids ? "--ids" : "--prompt", tokenizer.kind());
  return {{*end}, end};
}

/// Samples if that was asked for; otherwise searches.
TargetOptions target_options(const GenerateOptions& options, const Tokenizer& tokenizer) {
  TargetOptions target;
  target.max_tokens = options.max_tokens.value_or(0);
  target.beams = {options.beams.value_or(1), options.length_penalty, tokenizer.vocab_size()};
  check(target.beams);
  if (options.temperature.value_or(0.0) == 0.0) return target;
  target.sampling = options.sampling;
  target.sampling->temperature = *options.temperature;
  target.sampling->vocab_size = tokenizer.vocab_size();
  check(*target.sampling);
  return target;
}

/// Writes target texts with an encoder-decoder.
void generate_with_source(const GenerateOptions& options, Communicator& world) {
  const LoadedModel loaded = load_model(options.checkpoint, options.devices, world,
                                        options.file.rows(), options.file.tensor_ranks());
  const Tokenizer& tokenizer = *loaded.tokenizer;
  if (options.file.given()) {
    FilePredictionOptions how;
    how.truncate = options.truncate;
    const auto open = [&](const FilePredictionOptions& opened) {
      require_tokenizer(tokenizer, "--input", loaded.path);
      return target_prediction(loaded.model->config(), tokenizer,
                               target_options(options, tokenizer), opened);
    };
    return predict_for_file(loaded, options.file, how, open, world);
  }
  const std::string text = read_prompt(options.prompt, world);
  // All ranks see the same text, so none fails alone.
  all_alike(world, [&] {
    require(!options.ids && !options.chat,
            "{} is for models that continue a text: pass a source with --prompt",
            options.ids ? "--ids" : "--chat");
    require_tokenizer(tokenizer, "--prompt", loaded.path);
    const Sample sample =
        source_sample(loaded.model->config(), tokenizer, text, options.truncate, "--prompt");
    const auto tokens =
        generate_targets(*loaded.model, {&sample, 1}, target_options(options, tokenizer),
                         sequence_ends(tokenizer).end)[0];
    if (world.rank() == 0) print(for_terminal(tokenizer.decode(tokens)) + "\n");
  });
}

/// Refuses options that a model which continues a text would ignore.
void require_no_target_options(const GenerateOptions& options) {
  const std::string_view option = options.file.given() ? "--input"
                                  : options.beams      ? "--beams"
                                  : options.truncate   ? "--truncate"
                                                       : "";
  require(option.empty(),
          "{} is for encoder-decoders, but this model continues a text: leave it out", option);
}

bool has_source(const std::filesystem::path& checkpoint) {
  const Checkpoint opened = Checkpoint::open(checkpoint);
  return traits_of(model_from_json(opened.manifest().model)).source_length > 0;
}

void generate(const GenerateOptions& options, Communicator& world) {
  OpenedDevices devices;
  std::unique_ptr<Generator> generator;
  std::unique_ptr<Tokenizer> tokenizer;
  Prompt prompt;
  const auto path = resolve_checkpoint(options.checkpoint, world);
  bool is_encoder_decoder = false;
  all_or_none(world, [&] {
    is_encoder_decoder = has_source(path);
    if (!is_encoder_decoder) require_no_target_options(options);
  });
  if (is_encoder_decoder) return generate_with_source(options, world);
  const std::string text = read_prompt(options.prompt, world);
  apply_host_threads(world);
  devices = options.devices.open(world);
  const MemoryUse use("", "start more ranks with mpirun, which split the model");
  all_or_none(world, [&] {
    check(options.sampling);
    Checkpoint checkpoint = Checkpoint::open(path);
    tokenizer = tokenizer_of(checkpoint);
    if (!options.ids) require_tokenizer(*tokenizer, "--prompt", path);
    generator = std::make_unique<Generator>(checkpoint, *devices.world, devices.device);
    prompt = encode_prompt(*tokenizer, options, text, generator->config().vocab_size);
  });

  std::unique_ptr<Writer> writer;  // on the first rank
  if (world.rank() == 0 && options.ids) writer = std::make_unique<IdWriter>(prompt.tokens);
  if (world.rank() == 0 && !options.ids) {
    const bool only_reply = options.chat.has_value();
    writer = only_reply ? std::make_unique<TextWriter>(*tokenizer, "", std::span<const int32_t>())
                        : std::make_unique<TextWriter>(*tokenizer, text, prompt.tokens);
  }
  if (writer) writer->start();
  SamplingOptions sampling = options.sampling;
  sampling.vocab_size = tokenizer->vocab_size();
  sampling.temperature = options.temperature.value_or(1.0);
  // All ranks see the same tokens and logits, so none fails alone.
  all_alike(world, [&] {
    generator->generate(prompt.tokens, options.max_tokens.value_or(kDefaultTokens), sampling,
                        [&](int32_t token) {
                          if (token == prompt.end || token == tokenizer->end_of_document()) {
                            return false;
                          }
                          if (writer) writer->add(token);
                          return true;
                        });
  });
  if (writer) writer->finish();
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(
      "generate",
      "Continue a text with a trained model, or write a target text with an encoder-decoder");
  add_run_argument(*command, options->checkpoint);
  command
      ->add_option(
          "--prompt", options->prompt,
          "Text to continue, or the source of an encoder-decoder; - reads it from standard "
          "input; a text to continue may be empty")
      ->type_name("TEXT");
  add_ids_option(*command, options->prompt, "--prompt",
                 "; - reads them from standard input; prints ids");
  add_file_options(*command, options->file, "--prompt");
  CLI::Option* const chat = add_choice(
      *command, "--chat", options->chat,
      {{"auto", ChatFormat::automatic},
       {"chatml", ChatFormat::chatml},
       {"plain", ChatFormat::plain}},
      "Read the prompt as a user's message, in this template (data.chat_template), and print the "
      "assistant's reply");
  chat->excludes("--ids")->excludes("--input");
  command
      ->add_option("--system", options->system, "With --chat: a system message before the prompt")
      ->type_name("TEXT")
      ->needs(chat);
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "Maximum number of tokens to generate (default: 200; of an encoder-decoder, as "
                   "many as it supports)")
      ->check(whole_number_from(0));
  CLI::Option* const temperature =
      command
          ->add_option("--temperature", options->temperature,
                       "Sampling temperature; 0 always takes the most likely token (default: 1, of "
                       "an encoder-decoder 0)")
          ->check(CLI::Number.description(""));
  command
      ->add_option("--beams", options->beams,
                   "With an encoder-decoder: search with this many beams instead of sampling")
      ->check(whole_number_from(1))
      ->excludes(temperature);
  command
      ->add_option(
          "--length-penalty", options->length_penalty,
          "With --beams: divides the log probability of a text by its length to this power")
      ->check(CLI::Number.description(""))
      ->capture_default_str()
      ->needs("--beams");
  command->add_flag("--truncate", options->truncate,
                    "With an encoder-decoder: truncate sources that are too long");
  command
      ->add_option("--top-k", options->sampling.top_k,
                   "Sample from the K most likely tokens; 0 means all")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command
      ->add_option("--top-p", options->sampling.top_p,
                   "Sample from the most likely tokens whose probabilities sum to P")
      ->check(CLI::Number.description(""))
      ->capture_default_str();
  command->add_option("--seed", options->sampling.seed, "Seed of the sampling")
      ->check(whole_number_from(0))
      ->capture_default_str();
  add_device_options(*command, options->devices);
  command->callback([command, options, &exit_code] {
    options->ids = has_ids_or_file(*command, options->file, "--prompt");
    exit_code = run_on_ranks(command_line_of(*command),
                             [&](Communicator& world) { generate(*options, world); });
  });
}

}  // namespace tessera
