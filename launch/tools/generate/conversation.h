#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/generation/continuation.h"

namespace tessera {

/// A chat of several messages and replies, as much of it as fits into the model's context.
class Conversation {
 public:
  /// Leaves room for a reply of `reply_tokens`, or of a quarter of the context if that is less.
  /// `config` and `tokenizer` must outlive this.
  Conversation(const ModelConfig& config, const Tokenizer& tokenizer, Chat chat,
               int64_t reply_tokens);

  /// Returns the tokens of the conversation with another message of the user, up to where the reply
  /// to it begins. Forgets the oldest messages, with the replies to them, if they do not fit any
  /// more. Throws if the message alone is too long or cannot be encoded, and keeps all as it was.
  std::vector<int32_t> ask(const std::string& message);

  /// Adds the reply to that message. An empty one is forgotten, and the message with it.
  void add_reply(std::string_view reply);

  /// Forgets all messages and replies.
  void reset() { exchanges_.clear(); }
  /// Forgets them and begins with this message of the system, or none. Throws if the template has
  /// no place for it, and keeps all as it was.
  void begin(std::optional<std::string> system);

  /// How many messages have been forgotten because they did not fit.
  int64_t forgotten() const { return forgotten_; }

 private:
  std::vector<int32_t> encode(size_t first, const std::string& message) const;

  const ModelConfig& config_;
  const Tokenizer& tokenizer_;
  Chat chat_;
  int64_t most_;                                                // tokens before a reply
  std::vector<std::pair<std::string, std::string>> exchanges_;  // messages and replies
  std::string message_;                                         // that has no reply yet
  int64_t forgotten_ = 0;
};

}  // namespace tessera
