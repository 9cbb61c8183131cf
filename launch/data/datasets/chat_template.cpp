#include "launch/data/datasets/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "launch/support/text/white_space.h"
#include "launch/tokenizers/id_tokenizer.h"

namespace tessera {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";  // ▁

using TokenNames = std::map<std::string, int32_t>;

/// Names the first token of a form that a tokenizer lacks.
std::optional<std::string> missing_token(const ChatForm& form, const TokenNames& names) {
  for (const std::string& token : form.tokens) {
    if (!names.contains(token)) return token;
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

/// Whether the tokenizer puts a space even before a text that follows another, so that a space at
/// its start would be one more.
bool adds_space(const Tokenizer& tokenizer) {
  const std::vector<int32_t> tokens = tokenizer.encode_part("a", {.follows_text = true});
  return !tokens.empty() && tokenizer.token_text(tokens.front()).starts_with(kSpaceMark);
}

/// A prompt and its completion.
ChatForm form_without_roles() {
  ChatForm form{"prompts"};
  form.at_start[index_of(Role::user)] = "";
  form.after[index_of(Role::user)][index_of(Role::assistant)] = "";
  return form;
}

}  // namespace

TokenNames chat_token_names(const Tokenizer& tokenizer) {
  TokenNames names;
  for (const int32_t token : tokenizer.named_tokens()) {
    const std::string name = tokenizer.token_text(token);
    if (!trimmed(name).empty() && !name.starts_with(kSpaceMark)) names.emplace(name, token);
  }
  return names;
}

std::shared_ptr<const ChatForm> chosen_chat_form(ChatFormat choice,
                                                 std::shared_ptr<const ChatForm> of_model,
                                                 const Tokenizer& tokenizer) {
  require(!is_none(tokenizer),
          "data.tokenizer is none, but messages have roles, whose names are no ids: choose a "
          "tokenizer, or prompts and completions of ids");
  if (choice == ChatFormat::automatic && of_model) {
    require(of_model->problem.empty(),
            "data.chat_template is auto, but {}: choose chatml or plain, or write prompts and "
            "completions",
            of_model->problem);
    return of_model;
  }
  if (choice == ChatFormat::plain) return std::make_shared<const ChatForm>(plain_form());
  const auto missing = missing_token(chatml_form(), chat_token_names(tokenizer));
  if (choice == ChatFormat::automatic && missing) {
    return std::make_shared<const ChatForm>(plain_form());
  }
  require(!missing,
          "data.chat_template is chatml, but tokenizer {} has no token {}: choose plain, or a "
          "tokenizer with {}",
          tokenizer.kind(), missing.value_or(""), fmt::join(chatml_form().tokens, " and "));
  return std::make_shared<const ChatForm>(chatml_form());
}

/// Appends texts and special tokens to `out`.
class ChatTemplate::Writer {
 public:
  Writer(const ChatTemplate& chat, std::string_view where, ChatTokens& out)
      : chat_(chat), tokenizer_(*chat.tokenizer_), where_(where), out_(out) {
    out_.tokens.clear();
    out_.is_learned.clear();
  }

  std::string_view where() const { return where_; }

  /// Text that is no reply, of the message `name`; it is tokenized with the next one.
  void add_context(std::string_view text, const std::string& name) {
    context_ += text;
    name_ = name;
  }

  void add_special(int32_t token, bool is_learned) {
    finish_context(token);
    out_.tokens.push_back(token);
    out_.is_learned.push_back(is_learned);
    beside_ = {.before = token};
  }

  /// `end`: the token that follows.
  void add_reply(std::string_view text, const std::string& name, bool is_learned,
                 std::optional<int32_t> end) {
    finish_context();
    require(!out_.tokens.empty(), "{}: {} has no tokens, but the first token needs one before it",
            where_, name_);
    const size_t before = out_.tokens.size();
    append(text, name, is_learned, end);
    require(out_.tokens.size() > before, "{}: {} has no tokens", where_, name);
  }

  /// `end`: the token that follows.
  void finish_context(std::optional<int32_t> end = std::nullopt) {
    if (!context_.empty()) append(context_, name_, /*is_learned=*/false, end);
    context_.clear();
  }

 private:
  void append(std::string_view text, const std::string& name, bool is_learned,
              std::optional<int32_t> end) {
    beside_.after = end;
    std::vector<int32_t> tokens;
    try {
      tokens = tokenizer_.encode_part(text, chat_.form_ ? beside_ : TextNeighbors{});
    } catch (const Error& error) {
      fail("{}, {}: {}", where_, name, error.what());
    }
    for (const int32_t token : tokens) {
      require(!chat_.between_.contains(token),
              "{}, {}: the text contains {}, which tokenizer {} reads as the token between "
              "messages: remove it",
              where_, name, tokenizer_.token_text(token), tokenizer_.kind());
    }
    out_.tokens.insert(out_.tokens.end(), tokens.begin(), tokens.end());
    out_.is_learned.resize(out_.tokens.size(), is_learned);
    if (!tokens.empty()) beside_ = {.follows_text = true};
  }

  const ChatTemplate& chat_;
  const Tokenizer& tokenizer_;
  std::string_view where_;
  ChatTokens& out_;
  std::string context_, name_;
  TextNeighbors beside_;  // of the next text
};

ChatTemplate ChatTemplate::without_roles(const Tokenizer& tokenizer) {
  static const ChatForm form = form_without_roles();
  ChatTemplate chat(tokenizer);
  chat.set(form);
  return chat;
}

ChatTemplate::ChatTemplate(std::shared_ptr<const ChatForm> form, const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), form_(std::move(form)) {
  set(*form_);
}

void ChatTemplate::set(const ChatForm& form) {
  const TokenNames names = chat_token_names(*tokenizer_);
  const auto missing = missing_token(form, names);
  require(!missing, "the chat template {} needs the token {}, which tokenizer {} lacks", form.name,
          missing.value_or(""), tokenizer_->kind());
  const auto add_text = [](Pieces& pieces, char byte) {
    if (pieces.empty() || pieces.back().token) pieces.push_back({});
    pieces.back().text += byte;
  };
  const auto split = [&](const std::string& text) {
    Pieces pieces;
    for (size_t at = 0; at < text.size();) {
      const std::pair<const std::string, int32_t>* longest = nullptr;
      for (const auto& name : names) {
        const bool found = text.compare(at, name.first.size(), name.first) == 0;
        if (found && (longest == nullptr || name.first.size() > longest->first.size())) {
          longest = &name;
        }
      }
      if (longest == nullptr) {
        add_text(pieces, text[at++]);
        continue;
      }
      pieces.push_back({"", longest->second});
      between_.insert(longest->second);
      at += longest->first.size();
    }
    return pieces;
  };
  const auto split_all = [&](const ChatForm::Before& texts, Before& pieces) {
    for (size_t role = 0; role < kRoleNames.size(); ++role) {
      if (texts[role]) pieces[role] = split(*texts[role]);
    }
  };
  split_all(form.at_start, at_start_);
  for (size_t role = 0; role < kRoleNames.size(); ++role) split_all(form.after[role], after_[role]);
  trims_ = form.trims;
  reply_begin_ = form.reply_begin;
  if (reply_begin_.starts_with(' ') && adds_space(*tokenizer_)) reply_begin_.erase(0, 1);
  if (form.reply_end.empty()) {
    reply_end_ = end_of_document(*tokenizer_);
    between_.insert(reply_end_);
    return;
  }
  const Pieces end = split(form.reply_end);
  require(end.back().token.has_value() && (end.size() == 1 || (end.size() == 2 && !end[0].token)),
          "the chat template {} ends a reply with {}, but it must be one special token of "
          "tokenizer {}, perhaps after a text",
          form.name, quote(form.reply_end), tokenizer_->kind());
  reply_end_ = *end.back().token;
  if (end.size() == 2) reply_tail_ = end[0].text;
}

std::string ChatTemplate::name_of(size_t message, Role role) const {
  if (form_) return fmt::format("message {}", message + 1);
  return role == Role::assistant ? "the completion" : "the prompt";
}

void ChatTemplate::begin(std::optional<Role> previous, Role role, const std::string& name,
                         Writer& writer) const {
  const Before& before = previous ? after_[index_of(*previous)] : at_start_;
  const std::optional<Pieces>& pieces = before[index_of(role)];
  if (!pieces) {
    std::vector<std::string_view> allowed;
    for (size_t i = 0; i < kRoleNames.size(); ++i) {
      if (before[i]) allowed.push_back(kRoleNames[i]);
    }
    fail("{}: {} is of the {}, but {}, the chat template of the model allows {}", writer.where(),
         name, kRoleNames[index_of(role)],
         previous ? fmt::format("after one of the {}", kRoleNames[index_of(*previous)])
                  : "as the first one",
         allowed.empty() ? "none" : fmt::format("one of the {}", fmt::join(allowed, " or the ")));
  }
  for (const Piece& piece : *pieces) {
    if (piece.token) {
      writer.add_special(*piece.token, /*is_learned=*/false);
    } else {
      writer.add_context(piece.text, name);
    }
  }
}

std::optional<Role> ChatTemplate::write(std::span<const Message> messages, size_t given,
                                        Writer& writer) const {
  std::optional<Role> previous;
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, whole] = messages[i];
    const std::string_view text = trims_[index_of(role)] ? trimmed(whole) : whole;
    const std::string name = name_of(i, role);
    begin(previous, role, name, writer);
    if (role == Role::assistant) {
      const bool is_learned = i >= given;
      writer.add_reply(reply_begin_ + std::string(text) + reply_tail_, name, is_learned,
                       reply_end_);
      writer.add_special(reply_end_, is_learned);
    } else {
      writer.add_context(text, name);
    }
    previous = role;
  }
  return previous;
}

void ChatTemplate::encode(std::span<const Message> messages, std::string_view where,
                          ChatTokens& out, size_t given) const {
  require(!messages.empty() && messages.back().role == Role::assistant,
          "{}: the last message must be of the assistant", where);
  Writer writer(*this, where, out);
  write(messages, given, writer);
}

std::vector<int32_t> ChatTemplate::prompt(std::span<const Message> messages,
                                          std::string_view where) const {
  ChatTokens out;
  Writer writer(*this, where, out);
  write_prompt(messages, writer);
  return std::move(out.tokens);
}

ChatTokens ChatTemplate::continued_prompt(std::span<const Message> messages,
                                          std::string_view continuation,
                                          std::string_view where) const {
  ChatTokens out;
  Writer writer(*this, where, out);
  write_prompt(messages, writer);
  writer.add_reply(continuation, "the continuation", /*is_learned=*/true, std::nullopt);
  return out;
}

void ChatTemplate::write_prompt(std::span<const Message> messages, Writer& writer) const {
  constexpr Role kReplies = Role::assistant;
  const bool is_begun = !messages.empty() && messages.back().role == kReplies;
  const auto before = messages.first(messages.size() - (is_begun ? 1 : 0));
  const std::optional<Role> last = write(before, before.size(), writer);
  const std::string name = name_of(before.size(), kReplies);
  begin(last, kReplies, name, writer);
  writer.finish_context();
  if (is_begun) {
    const std::string_view text = messages.back().text;
    writer.add_reply(reply_begin_ + std::string(trims_[index_of(kReplies)] ? trimmed(text) : text),
                     name, /*is_learned=*/false, std::nullopt);
  }
}

}  // namespace tessera
