#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/cli/support/loaded_model.h"
#include "launch/config/chat_format.h"
#include "launch/tools/generate/continuation_prediction.h"

namespace tessera {

/// How a command generates texts.
struct TextOptions {
  std::optional<int64_t> max_tokens;
  std::optional<double> temperature;
  SamplingOptions sampling;  ///< without temperature and vocabulary
  std::vector<std::string> stops;
};

/// Adds --max-tokens, --temperature, --top-k, --top-p, --repetition-penalty, --seed and --stop.
/// Returns --temperature. `options` must live until the command line has been parsed.
CLI::Option* add_text_options(CLI::App& command, TextOptions& options);

/// Adds an option that chooses a chat template.
CLI::Option* add_chat_option(CLI::App& command, const std::string& name,
                             std::optional<ChatFormat>& format, const std::string& help);

/// A chat in the template that is chosen, which may be the model's own. Throws if the tokenizer
/// does not have its tokens.
Chat chosen_chat(ChatFormat format, const std::optional<std::string>& system,
                 const LoadedModel& loaded);

SamplingOptions sampling_options(const TextOptions& options, const Tokenizer& tokenizer,
                                 double default_temperature);

/// For models that continue texts. A text ends with the document, and a reply where it ends in the
/// template of `chat`.
ContinuationOptions continuation_options(const TextOptions& options, const LoadedModel& loaded,
                                         std::optional<Chat> chat);

}  // namespace tessera
