#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/model_json.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/checkpoint_choice.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/device_options.h"
#include "launch/cli/support/file_options.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/cli/support/process.h"
#include "launch/cli/support/text_options.h"
#include "launch/cli/support/text_printer.h"
#include "launch/data/datasets/line_reader.h"
#include "launch/support/files/file_pieces.h"
#include "launch/support/text/print.h"
#include "launch/tools/generate/target_prediction.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

struct GenerateOptions : TextOptions {
  CheckpointChoice checkpoint;
  std::string prompt;
  bool ids = false;                   ///< whether the prompt is ids
  std::optional<ChatFormat> chat;     ///< prompts are messages, and the model replies
  std::optional<std::string> system;  ///< the first message, with `chat`
  std::optional<int64_t> beams;
  double length_penalty = 1.0;
  bool truncate = false;
  int64_t num_samples = 1;
  bool stream = false, no_stream = false;
  FileOptions file;  ///< instead of a prompt
  DeviceOptions devices;

  int64_t num_beams() const { return beams.value_or(1); }
};

/// The value of --prompt or --ids, on all ranks; "-" stands for rank 0's standard input. Throws on
/// all ranks or none. Collective.
std::string read_prompt(const GenerateOptions& options, Communicator& world) {
  if (options.prompt != kStdin) return options.prompt;
  std::string text;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    for_each_piece(options.prompt, [&](std::string_view piece) {
      text += piece;
      require(text.size() <= kMaxLineBytes,
              "{} -: standard input has more than {} bytes, but a prompt has at most that many: "
              "shorten it",
              options.ids ? "--ids" : "--prompt", kMaxLineBytes);
    });
  });
  return broadcast_string(world, text, 0);
}

TargetOptions target_options(const GenerateOptions& options, const Tokenizer& tokenizer) {
  TargetOptions target;
  target.beams = {options.num_beams(), options.length_penalty, options.sampling.repetition_penalty,
                  tokenizer.vocab_size()};
  target.sampling = sampling_options(options, tokenizer, 0.0);
  target.stops = StopStrings(options.stops);
  target.max_tokens = options.max_tokens.value_or(0);
  return target;
}

ContinuationOptions continuations(const GenerateOptions& options, const LoadedModel& loaded) {
  std::optional<Chat> chat;
  if (options.chat) chat = chosen_chat(*options.chat, options.system, loaded);
  return continuation_options(options, loaded, std::move(chat));
}

/// Whether a text is printed while it is generated: if the options say so, by default on a
/// terminal.
bool streams(const GenerateOptions& options, const TextPrinter& printer) {
  if (options.num_beams() > 1 || options.num_samples > 1) return false;
  return options.stream || (printer.is_watched() && !options.no_stream);
}

std::vector<int32_t> prompt_tokens(const GenerateOptions& options, const LoadedModel& loaded,
                                   const std::optional<Chat>& chat, const std::string& prompt) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const ModelConfig& config = loaded.model->config();
  const std::string_view where = options.ids ? "--ids" : chat ? "--chat" : "--prompt";
  if (!options.ids) require_tokenizer(tokenizer, "--prompt", loaded.path);
  std::vector<int32_t> tokens = options.ids ? encode_prompt_ids(config, tokenizer, prompt, where)
                                : chat ? encode_chat_prompt(config, tokenizer, *chat, prompt, where)
                                       : encode_prompt(config, tokenizer, prompt, where);
  if (!options.truncate) require_fits(config, tokens, where, kTruncateAdvice);
  return tokens;
}

/// Says which special token a prompt spells but does not have.
void note_spelled_token(const Tokenizer& tokenizer, const std::string& prompt,
                        const std::vector<int32_t>& tokens) {
  for (const auto& [name, token] : chat_token_names(tokenizer)) {
    if (prompt.find(name) == std::string::npos || std::ranges::count(tokens, token) > 0) continue;
    print_error(
        "note: --prompt contains {} as plain text, as in training data: to pass the special "
        "token, use its id, {}, with --ids\n",
        name, token);
  }
}

/// Writes the targets or continuations for the texts of a file.
void generate_for_file(const GenerateOptions& options, const LoadedModel& loaded,
                       bool is_encoder_decoder, Communicator& world) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const ModelConfig& config = loaded.model->config();
  FilePredictionOptions how;
  how.truncate = options.truncate;
  how.samples = options.num_samples;
  predict_for_file(
      loaded, options.file, how,
      [&](const FilePredictionOptions& file) {
        if (!is_encoder_decoder) {
          return continuation_prediction(config, tokenizer, continuations(options, loaded), file);
        }
        return target_prediction(config, tokenizer, target_options(options, tokenizer), file);
      },
      world);
}

/// The ids that a text has gained since the last call, to be printed after those before.
class NewIds {
 public:
  std::string take(std::span<const int32_t> all) {
    std::string ids;
    for (const int32_t id : all.subspan(count_)) {
      ids += fmt::format("{}{}", count_++ == 0 ? "" : " ", id);
    }
    return ids;
  }

 private:
  size_t count_ = 0;
};

/// Calls print(first, count) for the samples of a prompt that the model computes together.
template <typename Print>
void for_each_batch(const GenerateOptions& options, const LoadedModel& loaded, Print&& print) {
  const int64_t rows = loaded.model->rows();
  for (int64_t first = 0; first < options.num_samples; first += rows) {
    print(first, std::min(rows, options.num_samples - first));
  }
}

/// A line above each of several samples.
std::string heading(const GenerateOptions& options, int64_t number) {
  if (options.num_samples == 1) return "";
  return fmt::format("sample {} of {}\n", number + 1, options.num_samples);
}

/// Prints the target of an encoder-decoder for a source: both texts, or both ids.
void print_target(const GenerateOptions& options, const LoadedModel& loaded,
                  const std::string& source, Communicator& world) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  if (!options.ids) require_tokenizer(tokenizer, "--prompt", loaded.path);
  const auto sample_of = options.ids ? source_sample_of_ids : source_sample;
  const Sample sample = sample_of(loaded.model->config(), tokenizer, source, options.truncate,
                                  options.ids ? "--ids" : "--prompt");
  TextPrinter printer(world);
  NewIds ids;
  OnToken on_token;
  const bool streaming = streams(options, printer);
  if (streaming) {
    on_token = [&](SampledText& text) {
      printer.add(options.ids ? ids.take(text.new_tokens()) : text.text().take());
    };
  }
  const TargetOptions how = target_options(options, tokenizer);
  for_each_batch(options, loaded, [&](int64_t first, int64_t count) {
    const std::vector<Sample> sources(static_cast<size_t>(count), sample);
    for (const Target& target :
         generate_targets(*loaded.model, tokenizer, sources, how, first, on_token)) {
      printer.add(heading(options, first++));
      if (!streaming) ids = {};
      printer.add((options.ids ? ids.take(target.tokens) : target.text) + "\n");
    }
  });
}

/// Prints a prompt and its continuation, as text or as ids, or the reply to a message.
void print_continuation(const GenerateOptions& options, const LoadedModel& loaded,
                        const std::string& prompt, Communicator& world) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const ContinuationOptions how = continuations(options, loaded);
  std::vector<int32_t> tokens = prompt_tokens(options, loaded, how.chat, prompt);
  if (world.rank() == 0 && !options.ids && !how.chat) {
    note_spelled_token(tokenizer, prompt, tokens);
  }
  if (options.truncate) truncate_prompt(loaded.model->config(), how.ends.max_tokens, tokens);
  NewIds ids;
  TextPrinter printer(world);
  const bool streaming = streams(options, printer);
  const auto shown = [&](const SampledText& text) {
    return options.ids ? ids.take(text.tokens()) : options.chat ? "" : prompt;
  };
  for_each_batch(options, loaded, [&](int64_t first, int64_t count) {
    std::vector<SampledText> texts;
    for (int64_t number = first; number < first + count; ++number) {
      texts.emplace_back(how.sampling, tokenizer, how.ends, tokens, number, how.start());
    }
    OnToken on_token;
    if (streaming) {
      printer.add(shown(texts[0]));
      on_token = [&](SampledText& text) {
        printer.add(options.ids ? ids.take(text.tokens()) : text.text().take());
      };
    }
    continue_texts(*loaded.model, texts, on_token);
    for (SampledText& text : texts) {
      printer.add(heading(options, first++));
      if (!streaming) ids = {};
      if (!streaming) printer.add(shown(text));
      printer.add((options.ids ? ids.take(text.tokens()) : text.text().finish()) + "\n");
    }
  });
}

/// Throws if options contradict each other or the model would ignore one.
void check_options(const GenerateOptions& options, const ModelConfig& model,
                   bool is_encoder_decoder) {
  SamplingOptions sampling = options.sampling;
  sampling.temperature = options.temperature.value_or(1.0);
  check(sampling);
  check(BeamOptions{options.num_beams(), options.length_penalty});
  (void)StopStrings(options.stops);
  require(!options.stream || !options.file.given(),
          "--stream shows a text while it is generated, but those of --input are written to a file "
          "once all are complete: leave it out");
  require(!options.stream || options.num_beams() == 1,
          "--stream shows a text while it is generated, but a search with {} beams knows it only "
          "at its end: leave out --stream or --beams",
          options.num_beams());
  require(!options.ids || options.stops.empty(),
          "--stop is a text, but with --ids the prompt and its continuation are ids: leave it out");
  require(!is_encoder_decoder || !options.chat,
          "--chat is for models that continue a text: pass a source with --prompt, or its ids with "
          "--ids");
  const double default_temperature = is_encoder_decoder ? 0.0 : 1.0;
  const bool samples =
      options.num_beams() == 1 && options.temperature.value_or(default_temperature) > 0.0;
  const SamplingOptions defaults;
  require(samples || (options.sampling.top_k == defaults.top_k &&
                      options.sampling.top_p == defaults.top_p),
          "--top-k and --top-p are for sampling, but here the likeliest text is searched: leave "
          "them out, or choose a --temperature above 0");
  require(samples || options.num_samples == 1,
          "--num-samples is {}, but here the likeliest text is searched, so all would be the same: "
          "leave it out, or choose a --temperature above 0",
          options.num_samples);
  require(!options.stream || options.num_samples == 1,
          "--stream shows one text while it is generated, but --num-samples is {}: leave one of "
          "them out",
          options.num_samples);
  require(!is_encoder_decoder || options.max_tokens != 0,
          "--max-tokens is 0, but an encoder-decoder writes at least one token: choose 1 or more");
  if (is_encoder_decoder) return;
  require(!options.beams,
          "--beams is for encoder-decoders, but this model continues a text: leave it out");
  require_objective(model, Objective::causal_lm, options.checkpoint.run);
}

void generate(const GenerateOptions& options, Communicator& world) {
  const auto path = resolve(options.checkpoint, world);
  bool is_encoder_decoder = false;
  all_or_none(world, [&] {
    const ModelConfig model = model_from_json(Checkpoint::open(path).manifest().model);
    is_encoder_decoder = traits_of(model).source_length > 0;
    check_options(options, model, is_encoder_decoder);
  });
  const std::string prompt = options.file.given() ? "" : read_prompt(options, world);
  const LoadedModel loaded =
      load_model(path, options.checkpoint.ema, options.devices, world,
                 options.file.given() ? options.file.rows()
                                      : std::min(options.num_samples, options.file.micro_batch),
                 options.file.tensor_ranks());
  if (options.file.given()) return generate_for_file(options, loaded, is_encoder_decoder, world);
  // All ranks see the same text and logits, so none fails alone.
  all_alike(world, [&] {
    const auto print = is_encoder_decoder ? print_target : print_continuation;
    print(options, loaded, prompt, world);
  });
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(
      "generate",
      "Continue a text with a trained model, or write a target text with an encoder-decoder");
  add_model_argument(*command, options->checkpoint);
  command
      ->add_option(
          "--prompt", options->prompt,
          "Text to continue, or the source of an encoder-decoder; - reads it from standard "
          "input; a text to continue may be empty")
      ->type_name("TEXT");
  add_ids_option(*command, options->prompt, "--prompt",
                 "; - reads them from standard input; prints ids");
  add_file_options(*command, options->file, "--prompt");
  CLI::Option* const micro_batch = command->get_option("--micro-batch");
  micro_batch->remove_needs(command->get_option("--input"));
  micro_batch->description("With --input or --num-samples: texts computed at once");
  CLI::Option* const chat = add_chat_option(
      *command, "--chat", options->chat,
      "Read prompts as messages of a user, or lists of messages in a file, in this template "
      "(data.chat_template), and print the assistant's replies; tessera chat has conversations");
  chat->excludes("--ids");
  command
      ->add_option("--system", options->system, "With --chat: a system message before the prompt")
      ->type_name("TEXT")
      ->needs(chat);
  CLI::Option* const temperature = add_text_options(*command, *options);
  command
      ->add_option("--num-samples", options->num_samples,
                   "Number of texts for each prompt; with --input, as many lines for each")
      ->check(whole_number_from(1))
      ->capture_default_str();
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
                    "Cut prompts at their beginning so that they and --max-tokens new tokens fit "
                    "into the model, whose context otherwise moves; of an encoder-decoder, cut "
                    "sources that are too long");
  CLI::Option* const stream = command->add_flag(
      "--stream", options->stream, "Print one text while it is generated (default: on a terminal)");
  command->add_flag("--no-stream", options->no_stream, "Print a text once it is complete")
      ->excludes(stream);
  add_device_options(*command, options->devices);
  command->callback([command, options, &exit_code] {
    options->ids = has_ids_or_file(*command, options->file, "--prompt");
    exit_code = run_on_ranks(command_line_of(*command),
                             [&](Communicator& world) { generate(*options, world); });
  });
}

}  // namespace tessera
