#include "launch/data/datasets/chat_template.h"

#include <fmt/format.h>

#include "core/error.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {
namespace {

constexpr std::string_view kMessageBegin = "<|im_start|>", kMessageEnd = "<|im_end|>";

std::optional<int32_t> find_token(const Tokenizer& tokenizer, std::string_view text) {
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.token_text(token) == text) return token;
  }
  return std::nullopt;
}

int32_t end_of_document(const Tokenizer& tokenizer) {
  const std::optional<int32_t> end = tokenizer.end_of_document();
  require(end.has_value(),
          "tokenizer {} has no end-of-document token, which a model must write at the end of a "
          "completion: choose one that has, or, with data.tokenizer none, name it as eos in "
          "data.special_tokens",
          tokenizer.kind());
  return *end;
}

}  // namespace

std::string_view jinja_of(ChatFormat format) {
  require(format != ChatFormat::automatic, "a chat template is chatml or plain");
  if (format == ChatFormat::chatml) {
    return "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
           "message['content'] + '<|im_end|>\\n' }}{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  }
  return "{% for message in messages %}{{ message['role'] + ':\\n' + message['content'] + "
         "(eos_token if message['role'] == 'assistant' else '\\n') }}{% endfor %}"
         "{% if add_generation_prompt %}{{ 'assistant:\\n' }}{% endif %}";
}

/// Appends texts and special tokens to `out`.
class ChatTemplate::Writer {
 public:
  Writer(const ChatTemplate& chat, std::string_view where, ChatTokens& out)
      : chat_(chat), tokenizer_(*chat.tokenizer_), where_(where), out_(out) {
    out_.tokens.clear();
    out_.is_reply.clear();
  }

  /// Text that is no reply, of the message `name`; it is tokenized with the next one.
  void add_context(std::string_view text, const std::string& name) {
    context_ += text;
    name_ = name;
  }

  void add_special(int32_t token, bool is_reply) {
    finish_context();
    out_.tokens.push_back(token);
    out_.is_reply.push_back(is_reply);
  }

  void add_reply(std::string_view text, const std::string& name) {
    finish_context();
    require(!out_.tokens.empty(), "{}: {} has no tokens, but the first token needs one before it",
            where_, name_);
    const size_t before = out_.tokens.size();
    append(text, name, /*is_reply=*/true);
    require(out_.tokens.size() > before, "{}: {} has no tokens", where_, name);
  }

  void finish_context() {
    if (!context_.empty()) append(context_, name_, /*is_reply=*/false);
    context_.clear();
  }

 private:
  void append(std::string_view text, const std::string& name, bool is_reply) {
    std::vector<int32_t> tokens;
    try {
      tokens = tokenizer_.encode(text);
    } catch (const Error& error) {
      fail("{}, {}: {}", where_, name, error.what());
    }
    for (const int32_t token : tokens) {
      require(token != chat_.message_begin_ && token != chat_.message_end_,
              "{}, {}: the text contains {}, which tokenizer {} reads as the token between "
              "messages: remove it",
              where_, name, tokenizer_.token_text(token), tokenizer_.kind());
    }
    out_.tokens.insert(out_.tokens.end(), tokens.begin(), tokens.end());
    out_.is_reply.resize(out_.tokens.size(), is_reply);
  }

  const ChatTemplate& chat_;
  const Tokenizer& tokenizer_;
  std::string_view where_;
  ChatTokens& out_;
  std::string context_, name_;
};

ChatTemplate ChatTemplate::without_roles(const Tokenizer& tokenizer) {
  ChatTemplate chat(tokenizer);
  chat.reply_end_ = end_of_document(tokenizer);
  return chat;
}

ChatTemplate ChatTemplate::of(ChatFormat format, const Tokenizer& tokenizer) {
  require(!is_none(tokenizer),
          "data.tokenizer is none, but messages have roles, whose names are no ids: choose a "
          "tokenizer, or prompts and completions of ids");
  ChatTemplate chat(tokenizer);
  chat.has_roles_ = true;
  if (format != ChatFormat::plain) {
    chat.message_begin_ = find_token(tokenizer, kMessageBegin);
    chat.message_end_ = find_token(tokenizer, kMessageEnd);
  }
  const bool has_both = chat.message_begin_ && chat.message_end_;
  require(format != ChatFormat::chatml || has_both,
          "data.chat_template is chatml, but tokenizer {} has no token {}: choose plain, or a "
          "tokenizer with {} and {}",
          tokenizer.kind(), chat.message_begin_ ? kMessageEnd : kMessageBegin, kMessageBegin,
          kMessageEnd);
  if (has_both) {
    chat.format_ = ChatFormat::chatml;
    chat.role_end_ = chat.after_message_ = chat.after_reply_ = "\n";
    chat.reply_end_ = *chat.message_end_;
    return chat;
  }
  chat.format_ = ChatFormat::plain;
  chat.message_begin_ = chat.message_end_ = std::nullopt;
  chat.role_end_ = ":\n";
  chat.after_message_ = "\n";
  chat.reply_end_ = end_of_document(tokenizer);
  return chat;
}

std::string ChatTemplate::name_of(size_t message, Role role) const {
  if (has_roles_) return fmt::format("message {}", message + 1);
  return role == Role::assistant ? "the completion" : "the prompt";
}

void ChatTemplate::begin(Role role, const std::string& name, Writer& writer) const {
  if (message_begin_) writer.add_special(*message_begin_, /*is_reply=*/false);
  if (!has_roles_) return;
  writer.add_context(kRoleNames[static_cast<size_t>(role)], name);
  writer.add_context(role_end_, name);
}

void ChatTemplate::write(std::span<const Message> messages, Writer& writer) const {
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, text] = messages[i];
    const std::string name = name_of(i, role);
    begin(role, name, writer);
    if (role == Role::assistant) {
      writer.add_reply(text, name);
      writer.add_special(reply_end_, /*is_reply=*/true);
      writer.add_context(after_reply_, name);
    } else {
      writer.add_context(text, name);
      if (message_end_) writer.add_special(*message_end_, /*is_reply=*/false);
      writer.add_context(after_message_, name);
    }
  }
}

void ChatTemplate::encode(std::span<const Message> messages, std::string_view where,
                          ChatTokens& out) const {
  require(!messages.empty() && messages.back().role == Role::assistant,
          "{}: the last message must be of the assistant", where);
  Writer writer(*this, where, out);
  write(messages, writer);
}

std::vector<int32_t> ChatTemplate::prompt(std::span<const Message> messages,
                                          std::string_view where) const {
  ChatTokens out;
  Writer writer(*this, where, out);
  write(messages, writer);
  begin(Role::assistant, name_of(messages.size(), Role::assistant), writer);
  writer.finish_context();
  return std::move(out.tokens);
}

}  // namespace tessera
