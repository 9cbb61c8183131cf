#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/config/chat_form.h"
#include "launch/config/chat_format.h"
#include "launch/tokenizers/tokenizer.h"

namespace tessera {

struct Message {
  Role role;
  std::string_view text;
};

/// Tokens of a conversation, and which of them a model learns to write.
struct ChatTokens {
  std::vector<int32_t> tokens;
  std::vector<bool> is_learned;  ///< of each token: whether it is of a learned reply or ends it
};

/// The tokens that may stand between messages, by their names: all of Tokenizer::named_tokens()
/// except runs of white space, which some tokenizers have as added tokens.
std::map<std::string, int32_t> chat_token_names(const Tokenizer& tokenizer);

/// The form that is chosen. `of_model` is the one that the model learned, or null. Throws, naming
/// data.chat_template, if the model's cannot be used, and if chatml is chosen for a tokenizer
/// without its tokens.
std::shared_ptr<const ChatForm> chosen_chat_form(ChatFormat choice,
                                                 std::shared_ptr<const ChatForm> of_model,
                                                 const Tokenizer& tokenizer);

/// Encodes conversations of a form. Text between special tokens is tokenized as a part of the
/// conversation (Tokenizer::encode_part()). A reply, which is what the assistant writes after a
/// prompt, begins a part, so that no token has some of it and some of what precedes: a conversation
/// has the tokens of its prompt, and those are the tokens of the whole text. Special tokens within
/// a message are ordinary text; a tokenizer that reads them there all the same is an error.
class ChatTemplate {
 public:
  /// Nothing surrounds a prompt, which the user says, and its completion, which the assistant says;
  /// each is tokenized alone:
  ///
  ///     PROMPT COMPLETION end-of-document
  ///
  /// Throws if the tokenizer has no end-of-document token.
  static ChatTemplate without_roles(const Tokenizer& tokenizer);

  /// `tokenizer` must outlive this. Throws if it lacks the special tokens of the form, or if its
  /// tokens are ids.
  ChatTemplate(std::shared_ptr<const ChatForm> form, const Tokenizer& tokenizer);

  /// Null without roles.
  const std::shared_ptr<const ChatForm>& form() const { return form_; }

  /// The token that ends a reply.
  int32_t reply_end() const { return reply_end_; }

  /// Overwrites `out` with the tokens of messages, of which the last one must be a reply, up to its
  /// end. Replies among the first `given` messages are not learned. Throws a message that starts
  /// with `where` if a reply or all that precedes it has no tokens, if a text cannot be encoded, or
  /// if the form has no place for a message.
  void encode(std::span<const Message> messages, std::string_view where, ChatTokens& out,
              size_t given = 0) const;

  /// The same of a conversation that the form's template wrote, in parts: what precedes a reply,
  /// and the reply with its end, in turn. Its first `given` replies are not learned. Throws if the
  /// tokens of the whole text would be others, or if a reply does not end with a special token.
  void encode_parts(std::span<const std::string> parts, std::string_view where, ChatTokens& out,
                    size_t given) const;

  /// The names of special tokens that are ordinary text in a message.
  std::vector<std::string> names_read_as_text() const;

  /// Returns the tokens of messages and of what precedes the reply to them. If the last one is of
  /// the assistant, it is the beginning of the reply. Throws as encode() does.
  std::vector<int32_t> prompt(std::span<const Message> messages, std::string_view where) const;

  /// Returns the tokens of prompt() and of a text that continues it, which are the learned ones.
  /// Throws also if either has none.
  ChatTokens continued_prompt(std::span<const Message> messages, std::string_view continuation,
                              std::string_view where) const;

  /// A reply that a model wrote, without the text that the form begins replies with.
  std::string_view reply_text(std::string_view written) const;

  /// The first of the form's special tokens whose name is in a text, where it is ordinary text.
  std::optional<std::string> token_named_in(std::string_view text) const;

 private:
  class Writer;

  /// A text of a form, or a special token.
  struct Piece {
    std::string text;
    std::optional<int32_t> token;
  };
  using Pieces = std::vector<Piece>;
  struct Turn {
    Pieces before;
    Trim trim;
  };
  using Turns = std::array<std::optional<Turn>, kRoleNames.size()>;
  struct Reply {
    ChatForm::Reply how;
    Pieces given, begin;
  };

  explicit ChatTemplate(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  void set(const ChatForm& form);
  /// Splits a text at the names of special tokens.
  Pieces split(std::string_view text) const;
  /// Returns what a message begins with.
  const Turn& turn(std::optional<Role> previous, Role role, const std::string& name,
                   std::string_view where) const;
  /// Writes a reply without its end.
  static void write_reply(std::string_view text, const Reply& style, const std::string& name,
                          bool is_learned, Writer& writer);
  /// Writes messages; `ends`: whether the last one ends the conversation. Returns its role.
  std::optional<Role> write(std::span<const Message> messages, size_t given, bool ends,
                            Writer& writer) const;

  /// Writes what prompt() returns.
  void write_prompt(std::span<const Message> messages, Writer& writer) const;

  /// For errors: "the completion", "message 3".
  std::string name_of(size_t message, Role role) const;

  const Tokenizer* tokenizer_;
  std::map<std::string, int32_t> names_;  // chat_token_names()
  std::shared_ptr<const ChatForm> form_;
  Turns at_start_;
  std::array<Turns, kRoleNames.size()> after_;  // by the role of the previous message
  Reply earlier_, last_;                        // as in ChatForm
  Pieces prompt_end_;
  std::string reply_tail_;  // before the end of a reply
  int32_t reply_end_ = 0;
  std::map<int32_t, std::string> between_;  // the special tokens that end or begin messages
};

}  // namespace tessera
