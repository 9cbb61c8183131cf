#include "launch/tools/generate/conversation.h"

#include <algorithm>

#include "core/error.h"

namespace tessera {

Conversation::Conversation(const ModelConfig& config, const Tokenizer& tokenizer, Chat chat,
                           int64_t reply_tokens)
    : config_(config),
      tokenizer_(tokenizer),
      chat_(std::move(chat)),
      most_(config.seq_length - std::min(reply_tokens, config.seq_length / 4)) {}

std::vector<int32_t> Conversation::encode(size_t first, const std::string& message) const {
  std::vector<Message> messages;
  if (chat_.system) messages.push_back({Role::system, *chat_.system});
  for (size_t i = first; i < exchanges_.size(); ++i) {
    messages.push_back({Role::user, exchanges_[i].first});
    messages.push_back({Role::assistant, exchanges_[i].second});
  }
  messages.push_back({Role::user, message});
  return encode_messages(config_, tokenizer_, chat_.form, messages, "chat");
}

std::vector<int32_t> Conversation::ask(const std::string& message) {
  size_t first = 0;
  std::vector<int32_t> tokens = encode(first, message);
  while (std::ssize(tokens) > most_ && first < exchanges_.size()) tokens = encode(++first, message);
  require(std::ssize(tokens) <= most_,
          "chat: the message has {} tokens with what surrounds it, but the model sees {} at once "
          "(model.seq_length), of which {} are for the reply: shorten it",
          tokens.size(), config_.seq_length, config_.seq_length - most_);
  exchanges_.erase(exchanges_.begin(), exchanges_.begin() + static_cast<ptrdiff_t>(first));
  forgotten_ += static_cast<int64_t>(first);
  message_ = message;
  return tokens;
}

void Conversation::begin(std::optional<std::string> system) {
  std::swap(chat_.system, system);
  try {
    encode(exchanges_.size(), "a message");
  } catch (const Error&) {
    std::swap(chat_.system, system);
    throw;
  }
  reset();
}

void Conversation::add_reply(std::string_view reply) {
  const std::string text(chat_.form.reply_text(reply));
  if (!text.empty()) exchanges_.emplace_back(std::move(message_), text);
}

}  // namespace tessera
