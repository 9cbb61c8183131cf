#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/data/datasets/chat_template.h"
#include "launch/generation/queried_model.h"
#include "launch/generation/sampled_text.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// How prompts are messages of conversations.
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
/// As above, for a user's message; the tokens end where the assistant's reply begins.
std::vector<int32_t> encode_chat_prompt(const ModelConfig& config, const Tokenizer& tokenizer,
                                        const Chat& chat, std::string_view message,
                                        std::string_view where);
/// As above, for the messages of a conversation; the last one may be the beginning of the reply.
std::vector<int32_t> encode_messages(const ModelConfig& config, const Tokenizer& tokenizer,
                                     const ChatTemplate& form, std::span<const Message> messages,
                                     std::string_view where);
/// As above, after chat.system. Throws also if the conversation has a system message of its own.
std::vector<int32_t> encode_messages(const ModelConfig& config, const Tokenizer& tokenizer,
                                     const Chat& chat, std::span<const Message> messages,
                                     std::string_view where);
/// As above, for ids in decimal; throws also for one that is not in the model's vocabulary.
std::vector<int32_t> encode_prompt_ids(const ModelConfig& config, const Tokenizer& tokenizer,
                                       std::string_view ids, std::string_view where);

/// Throws if a prompt is longer than what the model sees at once. The message starts with `where`
/// and ends in `advice`: "shorten it".
void require_fits(const ModelConfig& config, std::span<const int32_t> prompt,
                  std::string_view where, std::string_view advice);

/// The advice of commands that have --truncate.
inline constexpr std::string_view kTruncateAdvice =
    "shorten it, or use its end alone with --truncate";

/// Cuts a prompt at its beginning, so that it and `max_tokens` new tokens fit into the model's
/// context, which then never moves. Throws, naming the options, if that leaves no token of the
/// prompt, or fewer than model.attention_prefix.
void truncate_prompt(const ModelConfig& config, int64_t max_tokens, std::vector<int32_t>& prompt);

/// Continues texts, each until it is done(), with a model that continues texts. Calls `on_token`,
/// if it is set, for each new token of a text. The first pass reads as many tokens of each prompt
/// as the shortest has, the following ones a token of each text. A prompt begins with its last
/// seq_length tokens; when the context is full, the newest half, or as much as
/// model.attention_prefix, becomes the new prompt. A text does not depend on the others, except for
/// rounding. Collective over model.tp().
void continue_texts(QueriedModel& model, std::span<SampledText> texts,
                    const OnToken& on_token = {});

/// Runs on the meta device the passes that continue any one text, those with the most memory.
/// Returns the bytes that they need on the device besides the arena.
size_t dry_continuation(Model& model, Arena& arena);

}  // namespace tessera
