#include "launch/cli/support/text_options.h"

#include <utility>

#include "launch/cli/support/command_line.h"

namespace tessera {
namespace {

constexpr int64_t kDefaultTokens = 200;

}  // namespace

CLI::Option* add_text_options(CLI::App& command, TextOptions& options) {
  command
      .add_option("--max-tokens", options.max_tokens,
                  "Maximum number of tokens to generate (default: 200; of an encoder-decoder, as "
                  "many as it supports)")
      ->check(whole_number_from(0));
  CLI::Option* const temperature =
      command
          .add_option("--temperature", options.temperature,
                      "Sampling temperature; 0 always takes the most likely token (default: 1, of "
                      "an encoder-decoder 0)")
          ->check(CLI::Number.description(""));
  command
      .add_option("--top-k", options.sampling.top_k,
                  "Sample from the K most likely tokens; 0 means all")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command
      .add_option("--top-p", options.sampling.top_p,
                  "Sample from the most likely tokens whose probabilities sum to P")
      ->check(CLI::Number.description(""))
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", options.sampling.repetition_penalty,
                  "Divides the logits of tokens that the text contains, or multiplies them if they "
                  "are negative; 1 is off")
      ->check(CLI::Number.description(""))
      ->capture_default_str();
  command.add_option("--seed", options.sampling.seed, "Seed of the sampling")
      ->check(whole_number_from(0))
      ->capture_default_str();
  command
      .add_option("--stop", options.stops,
                  "End a text where it contains this text, which is cut off; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  return temperature;
}

CLI::Option* add_chat_option(CLI::App& command, const std::string& name,
                             std::optional<ChatFormat>& format, const std::string& help) {
  return add_choice(command, name, format,
                    {{"auto", ChatFormat::automatic},
                     {"chatml", ChatFormat::chatml},
                     {"plain", ChatFormat::plain}},
                    help);
}

Chat chosen_chat(ChatFormat format, const std::optional<std::string>& system,
                 const LoadedModel& loaded) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  return {ChatTemplate(chosen_chat_form(format, loaded.chat, tokenizer), tokenizer), system};
}

SamplingOptions sampling_options(const TextOptions& options, const Tokenizer& tokenizer,
                                 double default_temperature) {
  SamplingOptions sampling = options.sampling;
  sampling.temperature = options.temperature.value_or(default_temperature);
  sampling.vocab_size = tokenizer.vocab_size();
  return sampling;
}

ContinuationOptions continuation_options(const TextOptions& options, const LoadedModel& loaded,
                                         std::optional<Chat> chat) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  ContinuationOptions how;
  how.sampling = sampling_options(options, tokenizer, 1.0);
  how.ends.max_tokens = options.max_tokens.value_or(kDefaultTokens);
  how.ends.stops = StopStrings(options.stops);
  how.chat = std::move(chat);
  if (const auto end = tokenizer.end_of_document()) how.ends.tokens.push_back(*end);
  if (how.chat) how.ends.tokens.push_back(how.chat->form.reply_end());
  return how;
}

}  // namespace tessera
