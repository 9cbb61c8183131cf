#include <editline/readline.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <clocale>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "core/error.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/model_json.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/checkpoint_choice.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/device_options.h"
#include "launch/cli/support/input_line.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/cli/support/process.h"
#include "launch/cli/support/text_options.h"
#include "launch/cli/support/text_printer.h"
#include "launch/support/text/print.h"
#include "launch/support/text/white_space.h"
#include "launch/tools/generate/conversation.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

struct ChatOptions : TextOptions {
  CheckpointChoice checkpoint;
  std::optional<ChatFormat> format;
  std::optional<std::string> system;
  DeviceOptions devices;
};

constexpr const char* kCommands =
    "/reset          forget the conversation\n"
    "/system TEXT    begin again, with this message of the system; without TEXT with none\n"
    "/help           show these commands\n"
    "/exit           end, as Ctrl-D does";

/// Reads lines of standard input: on a terminal with the editing and history of libedit.
class LineInput {
 public:
  explicit LineInput(bool is_watched) : is_edited_(is_watched && ::isatty(STDIN_FILENO) == 1) {
    if (is_edited_) std::setlocale(LC_CTYPE, "");  // characters of several bytes
  }

  bool next(std::string& line, TextPrinter& printer) {
    if (!is_edited_) {
      if (printer.is_watched()) printer.add("> ");
      return read_input_line("chat", line);
    }
    const std::unique_ptr<char, void (*)(void*)> read(::readline("> "), std::free);
    if (!read) return false;
    line = read.get();
    check_input_line("chat", line);
    if (!line.empty()) ::add_history(read.get());
    return true;
  }

 private:
  bool is_edited_;
};

void chat(const ChatOptions& options, Communicator& world) {
  const auto path = resolve(options.checkpoint, world);
  all_or_none(world, [&] {
    const ModelConfig model = model_from_json(Checkpoint::open(path).manifest().model);
    require(traits_of(model).source_length == 0,
            "chat is for models that continue a text, but {} is an encoder-decoder: pass it a "
            "source with tessera generate --prompt",
            options.checkpoint.run);
    require_objective(model, Objective::causal_lm, options.checkpoint.run);
    SamplingOptions sampling = options.sampling;
    sampling.temperature = options.temperature.value_or(1.0);
    check(sampling);
  });
  const LoadedModel loaded = load_model(path, options.checkpoint.ema, options.devices, world);
  const Tokenizer& tokenizer = *loaded.tokenizer;
  TextPrinter printer(world);
  const bool is_watched =
      !broadcast_string(world, printer.is_watched() ? "watched" : "", 0).empty();
  std::optional<ContinuationOptions> how;
  std::optional<Conversation> conversation;
  all_alike(world, [&] {
    require_tokenizer(tokenizer, "chat", loaded.path);
    const ChatFormat format = options.format.value_or(ChatFormat::automatic);
    how = continuation_options(options, loaded, chosen_chat(format, options.system, loaded));
    conversation.emplace(loaded.model->config(), tokenizer, *how->chat, how->ends.max_tokens);
  });

  const auto note = [&](const std::string& text) {
    if (world.rank() == 0) print_error("{}\n", text);
  };
  const auto reply = [&](const std::string& message, int64_t number) {
    const int64_t forgotten = conversation->forgotten();
    std::vector<int32_t> tokens;
    try {
      tokens = conversation->ask(message);
    } catch (const Error& error) {
      if (!is_watched) throw;
      return note(error.what());
    }
    if (const int64_t more = conversation->forgotten() - forgotten; more > 0) {
      note(fmt::format("(forgotten: the {} and its reply; the model sees {} tokens)",
                       more == 1 ? "oldest message" : fmt::format("{} oldest messages", more),
                       loaded.model->config().seq_length));
    }
    SampledText text(how->sampling, tokenizer, how->ends, tokens, number, how->start());
    std::string all;
    const auto add = [&](const std::string& part) {
      printer.add(part);
      all += part;
    };
    continue_texts(*loaded.model, {&text, 1},
                   [&](SampledText& changed) { add(changed.text().take()); });
    add(text.text().finish());
    printer.add(is_watched ? "\n\n" : "\n");
    conversation->add_reply(all);
  };
  if (!loaded.chat && options.format.value_or(ChatFormat::automatic) == ChatFormat::automatic) {
    note(
        fmt::format("(the model has no chat template: messages are written as in {}, and it may "
                    "not have learned to reply)",
                    how->chat->form.form()->name));
  }
  const auto run_command = [&](std::string_view word, std::string_view rest) {
    try {
      if (word == "/help") note(kCommands);
      if (word == "/reset") conversation->reset();
      if (word == "/system") {
        conversation->begin(rest.empty() ? std::nullopt : std::optional<std::string>(rest));
      }
    } catch (const Error& error) {
      if (!is_watched) throw;
      note(error.what());
    }
  };
  int64_t number = 0;
  LineInput input(is_watched && world.rank() == 0);
  // All ranks see the same text and logits, so none fails alone.
  const auto read = [&](std::string& text) { return input.next(text, printer); };
  while (const auto message = next_input_line(read, world)) {
    const std::string_view line = trimmed(*message);
    const std::string_view word = line.substr(0, line.find(' '));
    if (word == "/exit") break;
    const bool is_command = word == "/help" || word == "/reset" || word == "/system";
    all_alike(world, [&] {
      if (is_command) {
        run_command(word, trimmed(line.substr(word.size())));
      } else {
        reply(*message, number++);
      }
    });
  }
  if (is_watched) printer.add("\n");
}

}  // namespace

void add_chat_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand(
      "chat",
      "Talk with a model that was trained on messages; each line is a message, or a command that "
      "/help lists");
  add_model_argument(*command, options->checkpoint);
  add_chat_option(*command, "--template", options->format,
                  "What surrounds messages (data.chat_template); auto takes what the model was "
                  "trained with (default: auto)");
  command->add_option("--system", options->system, "A system message before the first one")
      ->type_name("TEXT");
  add_text_options(*command, *options);
  add_device_options(*command, options->devices);
  command->callback([command, options, &exit_code] {
    exit_code = run_on_ranks(command_line_of(*command),
                             [&](Communicator& world) { chat(*options, world); });
  });
}

}  // namespace tessera
