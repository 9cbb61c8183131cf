#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/config/chat_format.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

/// Who says a message.
enum class Role : uint8_t { system, user, assistant };

inline constexpr std::array<std::string_view, 3> kRoleNames = {"system", "user", "assistant"};

struct Message {
  Role role;
  std::string_view text;
};

/// Tokens of a conversation, and which of them a model learns to write.
struct ChatTokens {
  std::vector<int32_t> tokens;
  std::vector<bool> is_reply;  ///< of each token: whether it is of the assistant's text or ends it
};

/// The format as a Jinja template, for `apply_chat_template` of transformers. Not for `automatic`.
std::string_view jinja_of(ChatFormat format);

/// What surrounds messages. The text of a reply, which is what the assistant says, is tokenized
/// alone, so that no token has a part of it and a part of what precedes. Other text between special
/// tokens is tokenized as a whole. Special tokens within a message are ordinary text; a tokenizer
/// that reads them there all the same is an error.
class ChatTemplate {
 public:
  /// Nothing surrounds a prompt, which the user says, and its completion, which the assistant says:
  ///
  ///     PROMPT COMPLETION end-of-document
  ///
  /// Throws if the tokenizer has no end-of-document token.
  static ChatTemplate without_roles(const Tokenizer& tokenizer);

  /// chatml, as of Qwen. <|im_end|> ends a reply:
  ///
  ///     <|im_start|> ROLE \n TEXT <|im_end|> \n
  ///
  /// plain, of any tokenizer with an end-of-document token, which ends a reply:
  ///
  ///     ROLE : \n TEXT \n                              system and user
  ///     ROLE : \n TEXT end-of-document                 assistant
  ///
  /// Throws, naming data.chat_template, if the tokenizer lacks the special tokens or cannot encode
  /// the names of roles.
  static ChatTemplate of(ChatFormat format, const Tokenizer& tokenizer);

  /// chatml or plain; of a template without roles, `automatic`.
  ChatFormat format() const { return format_; }

  /// The token that ends a reply.
  int32_t reply_end() const { return reply_end_; }

  /// Overwrites `out` with the tokens of messages, of which the last one must be a reply, up to its
  /// end. Throws a message that starts with `where` if a reply or all that precedes it has no
  /// tokens, or if a text cannot be encoded.
  void encode(std::span<const Message> messages, std::string_view where, ChatTokens& out) const;

  /// Returns the tokens of messages and of what precedes the reply to them. Throws as encode()
  /// does.
  std::vector<int32_t> prompt(std::span<const Message> messages, std::string_view where) const;

 private:
  class Writer;

  explicit ChatTemplate(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// Writes what precedes the text of a message.
  void begin(Role role, const std::string& name, Writer& writer) const;
  void write(std::span<const Message> messages, Writer& writer) const;

  /// For errors: "the completion", "message 3".
  std::string name_of(size_t message, Role role) const;

  const Tokenizer* tokenizer_;
  bool has_roles_ = false;
  ChatFormat format_ = ChatFormat::automatic;
  std::optional<int32_t> message_begin_;  // before the name of the role
  std::string_view role_end_;             // after it
  std::optional<int32_t> message_end_;    // after the text of others than the assistant
  int32_t reply_end_ = 0;                 // after the text of the assistant
  std::string_view after_message_;        // after message_end_
  std::string_view after_reply_;          // after reply_end_
};

}  // namespace tessera
