#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/datasets/chat_template.h"
#include "launch/tools/generate/sampled_text.h"
#include "launch/tools/predict/file_prediction.h"
#include "launch/tools/predict/text_model.h"

namespace tessera {

/// A conversation of which the prompt is the user's message.
struct Chat {
  ChatTemplate form;
  std::optional<std::string> system = {};  ///< the first message
};

/// The tokens of a prompt, for a model that continues texts. An empty one begins a document. Throws
/// a message that starts with `where`, "--prompt" or "prompts.txt:3", if the tokenizer cannot
/// encode it, if it is empty and no token begins a document, or if it is shorter than
/// model.attention_prefix.
std::vector<int32_t> encode_prompt(const ModelConfig& config, const Tokenizer& tokenizer,
                                   std::string_view prompt, std::string_view where);
/// Likewise for a user's message; the tokens end where the assistant's reply begins.
std::vector<int32_t> encode_chat_prompt(const ModelConfig& config, const Tokenizer& tokenizer,
                                        const Chat& chat, std::string_view message,
                                        std::string_view where);
/// Likewise for ids in decimal; throws also for one that is not in the model's vocabulary.
std::vector<int32_t> encode_prompt_ids(const ModelConfig& config, const Tokenizer& tokenizer,
                                       std::string_view ids, std::string_view where);

/// Continues texts, each until it is done(), with a model that continues texts. Calls `on_token`,
/// if it is set, for each new token of a text. The first pass reads as many tokens of each prompt
/// as the shortest has, the following ones a token of each text. A prompt begins with its last
/// seq_length tokens; when the context is full, the newest half, or as much as
/// model.attention_prefix, becomes the new prompt. A text does not depend on the others, except for
/// rounding. Collective over model.tp().
void continue_texts(TextModel& model, std::span<SampledText> texts, const OnToken& on_token = {});

/// How the prompts of a file are continued.
struct ContinuationOptions {
  SamplingOptions sampling;
  TextEnds ends;
  std::optional<Chat> chat = {};  ///< prompts are messages of a user

  TextStart start() const { return chat ? TextStart::alone : TextStart::after_prompt; }
};

/// The continuations of the prompts of a file: the lines of a .txt file, or the column or field
/// `prompt` of a .tsv or .jsonl file. Prompts of similar length are computed together. Throws,
/// naming file and line, for a prompt that cannot be encoded.
///
///     tsv    the header "generated_text" and a line per prompt, with spaces for tabs and line ends
///     jsonl  {"generated_text": "..."}
std::unique_ptr<const FilePrediction> continuation_prediction(const ModelConfig& config,
                                                              const Tokenizer& tokenizer,
                                                              const ContinuationOptions& options,
                                                              const FilePredictionOptions& file);

}  // namespace tessera
