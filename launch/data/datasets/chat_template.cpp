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
constexpr std::string_view kEndOfThought = "</think>";

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

/// Whether a reply is <think>\nTHOUGHT\n</think>\n\nTEXT, with nothing to leave out.
bool has_plain_thought(std::string_view text) {
  constexpr std::string_view kBegin = "<think>\n", kEnd = "\n</think>\n\n";
  const size_t end = text.find(kEnd);
  return text.starts_with(kBegin) && end != text.npos && end >= kBegin.size() &&
         text.find(kEndOfThought) == end + 1 && text.rfind(kEndOfThought) == end + 1 &&
         text.substr(kBegin.size(), end - kBegin.size()) ==
             trimmed(text.substr(kBegin.size(), end - kBegin.size()),
                     {Strip::lines, Strip::lines}) &&
         !text.substr(end + kEnd.size()).starts_with('\n');
}

/// A prompt and its completion.
ChatForm form_without_roles() {
  ChatForm form{"prompts"};
  form.at_start[index_of(Role::user)] = ChatForm::Turn{};
  form.after[index_of(Role::user)][index_of(Role::assistant)] = ChatForm::Turn{};
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

  /// Adds text of the message `name`; it is tokenized with the next one.
  void add(std::string_view text, const std::string& name) {
    text_ += text;
    name_ = name;
  }

  void add(const Pieces& pieces, const std::string& name) {
    for (const Piece& piece : pieces) {
      if (piece.token) {
        add(*piece.token);
      } else {
        add(piece.text, name);
      }
    }
  }

  void add(int32_t token) {
    finish(token);
    out_.tokens.push_back(token);
    out_.is_learned.push_back(is_learned_);
    beside_ = {.before = token};
  }

  /// `next`: the token that follows.
  void begin_reply(bool is_learned, std::optional<int32_t> next = std::nullopt) {
    finish(next);
    require(!out_.tokens.empty(), "{}: {} has no tokens, but the first token needs one before it",
            where_, name_);
    is_learned_ = is_learned;
    texts_ = 0;
  }

  /// `end`: the token that follows.
  void end_reply(const std::string& name, std::optional<int32_t> end) {
    finish(end);
    require(texts_ > 0, "{}: {} has no tokens", where_, name);
    if (end) add(*end);
    is_learned_ = false;
  }

  /// Tokenizes what was added. `end`: the token that follows.
  void finish(std::optional<int32_t> end = std::nullopt) {
    if (text_.empty()) return;
    beside_.after = end;
    std::vector<int32_t> tokens;
    try {
      tokens = tokenizer_.encode_part(text_, chat_.form_ ? beside_ : TextNeighbors{});
    } catch (const Error& error) {
      fail("{}, {}: {}", where_, name_, error.what());
    }
    for (const int32_t token : tokens) {
      const auto found = chat_.between_.find(token);
      require(found == chat_.between_.end(),
              "{}, {}: the text contains {}, which tokenizer {} reads as the token between "
              "messages: remove it",
              where_, name_, found == chat_.between_.end() ? "" : found->second, tokenizer_.kind());
    }
    out_.tokens.insert(out_.tokens.end(), tokens.begin(), tokens.end());
    out_.is_learned.resize(out_.tokens.size(), is_learned_);
    texts_ += tokens.size();
    beside_ = {.follows_text = beside_.follows_text || !tokens.empty(),
               .after_space = trimmed_right(text_).size() < text_.size(),
               .before = tokens.empty() ? beside_.before : std::nullopt};
    text_.clear();
  }

 private:
  const ChatTemplate& chat_;
  const Tokenizer& tokenizer_;
  std::string_view where_;
  ChatTokens& out_;
  std::string text_, name_;
  TextNeighbors beside_;  // of the next text
  bool is_learned_ = false;
  size_t texts_ = 0;  // the tokens of a reply that are not special
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

ChatTemplate::Pieces ChatTemplate::split(std::string_view text) const {
  Pieces pieces;
  while (!text.empty()) {
    const std::pair<const std::string, int32_t>* longest = nullptr;
    const std::string first(1, text.front());
    for (auto name = names_.lower_bound(first);
         name != names_.end() && name->first.starts_with(first); ++name) {
      const bool found = text.starts_with(name->first);
      if (found && (longest == nullptr || name->first.size() > longest->first.size())) {
        longest = &*name;
      }
    }
    if (longest != nullptr) {
      pieces.push_back({"", longest->second});
    } else {
      if (pieces.empty() || pieces.back().token) pieces.push_back({});
      pieces.back().text += text.front();
    }
    text.remove_prefix(longest == nullptr ? 1 : longest->first.size());
  }
  return pieces;
}

void ChatTemplate::set(const ChatForm& form) {
  names_ = chat_token_names(*tokenizer_);
  const auto missing = missing_token(form, names_);
  require(!missing, "the chat template {} needs the token {}, which tokenizer {} lacks", form.name,
          missing.value_or(""), tokenizer_->kind());
  const auto split_between = [&](const std::string& text) {
    Pieces pieces = split(text);
    for (const Piece& piece : pieces) {
      if (piece.token) between_[*piece.token] = tokenizer_->token_text(*piece.token);
    }
    return pieces;
  };
  const auto set_turns = [&](const ChatForm::Turns& from, Turns& to) {
    for (size_t role = 0; role < kRoleNames.size(); ++role) {
      if (from[role]) to[role] = {split_between(from[role]->before), from[role]->trim};
    }
  };
  set_turns(form.at_start, at_start_);
  for (size_t role = 0; role < kRoleNames.size(); ++role) set_turns(form.after[role], after_[role]);
  earlier_ = {form.earlier, split_between(form.earlier.given), split_between(form.earlier.begin)};
  last_ = {form.last, split_between(form.last.given), split_between(form.last.begin)};
  prompt_end_ = split_between(form.prompt_end);
  if (form.reply_end.empty()) {
    reply_end_ = end_of_document(*tokenizer_);
    between_[reply_end_] = tokenizer_->token_text(reply_end_);
  } else {
    const Pieces end = split_between(form.reply_end);
    require(end.back().token.has_value() && (end.size() == 1 || (end.size() == 2 && !end[0].token)),
            "the chat template {} ends a reply with {}, but it must be one special token of "
            "tokenizer {}, perhaps after a text",
            form.name, quote(form.reply_end), tokenizer_->kind());
    reply_end_ = *end.back().token;
    if (end.size() == 2) reply_tail_ = end[0].text;
  }
  // Any reply may have these.
  std::erase_if(between_, [](const auto& token) {
    return token.second == "<think>" || token.second == kEndOfThought;
  });
}

std::string_view ChatTemplate::reply_text(std::string_view written) const {
  std::string begin;  // as it is decoded
  for (const Piece& piece : last_.begin) {
    begin += piece.token ? tokenizer_->decode({&*piece.token, 1}) : piece.text;
  }
  return written.starts_with(begin) ? written.substr(begin.size()) : written;
}

std::optional<std::string> ChatTemplate::token_named_in(std::string_view text) const {
  for (const auto& [token, name] : between_) {
    if (text.find(name) != text.npos) return name;
  }
  return std::nullopt;
}

std::string ChatTemplate::name_of(size_t message, Role role) const {
  if (form_) return fmt::format("message {}", message + 1);
  return role == Role::assistant ? "the completion" : "the prompt";
}

const ChatTemplate::Turn& ChatTemplate::turn(std::optional<Role> previous, Role role,
                                             const std::string& name,
                                             std::string_view where) const {
  const Turns& turns = previous ? after_[index_of(*previous)] : at_start_;
  if (turns[index_of(role)]) return *turns[index_of(role)];
  std::vector<std::string_view> allowed;
  for (size_t i = 0; i < kRoleNames.size(); ++i) {
    if (turns[i]) allowed.push_back(kRoleNames[i]);
  }
  fail("{}: {} is of the {}, but {}, the chat template of the model allows {}", where, name,
       kRoleNames[index_of(role)],
       previous ? fmt::format("after one of the {}", kRoleNames[index_of(*previous)])
                : "as the first one",
       allowed.empty() ? "none" : fmt::format("one of the {}", fmt::join(allowed, " or the ")));
}

void ChatTemplate::write_reply(std::string_view text, const Reply& style, const std::string& name,
                               bool is_learned, Writer& writer) {
  bool has_begin = true;
  const size_t thought = text.rfind(kEndOfThought);
  const Thoughts rule = thought == text.npos ? Thoughts::keep : style.how.thoughts;
  require(rule != Thoughts::refuse,
          "{}, {}: has {}, but the chat template of the model changes thoughts: leave them out",
          writer.where(), name, kEndOfThought);
  if (rule == Thoughts::own) {
    require(has_plain_thought(text),
            "{}, {}: has {}, but the chat template of the model writes thoughts as "
            "<think>\\nTHOUGHT\\n</think>\\n\\nTEXT: write them like this",
            writer.where(), name, kEndOfThought);
    has_begin = false;
  } else if (rule != Thoughts::keep) {
    text.remove_prefix(thought + kEndOfThought.size());
    if (rule == Thoughts::drop_lines) text = trimmed(text, {Strip::lines, Strip::none});
    if (rule == Thoughts::drop_space) text = trimmed(text);
  }
  text = trimmed(text, style.how.trim);
  if (has_begin || text.starts_with(style.how.given)) {
    writer.add(style.given, name);
    if (!has_begin) text.remove_prefix(style.how.given.size());
  }
  const bool has_token = has_begin && !style.begin.empty();
  writer.begin_reply(is_learned, has_token ? style.begin.front().token : std::nullopt);
  if (has_begin) writer.add(style.begin, name);
  writer.add(text, name);
}

std::optional<Role> ChatTemplate::write(std::span<const Message> messages, size_t given, bool ends,
                                        Writer& writer) const {
  std::optional<Role> previous;
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, text] = messages[i];
    const std::string name = name_of(i, role);
    const Turn& begin = turn(previous, role, name, writer.where());
    writer.add(begin.before, name);
    if (role == Role::assistant) {
      const Reply& style = ends && i + 1 == messages.size() ? last_ : earlier_;
      write_reply(text, style, name, /*is_learned=*/i >= given, writer);
      writer.add(reply_tail_, name);
      writer.end_reply(name, reply_end_);
    } else {
      writer.add(trimmed(text, begin.trim), name);
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
  write(messages, given, /*ends=*/true, writer);
}

void ChatTemplate::encode_parts(std::span<const std::string> parts, std::string_view where,
                                ChatTokens& out, size_t given) const {
  {
    Writer whole(*this, where, out);
    std::string text;
    for (const std::string& part : parts) text += part;
    whole.add(split(text), "the conversation");
    whole.finish();
    require(out.tokens == tokenizer_->encode_with_special(text),
            "{}: its tokens in the chat template depend on the text around them", where);
  }
  Writer writer(*this, where, out);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = fmt::format("reply {}", i / 2 + 1);
    Pieces pieces = split(parts[i]);
    if (i % 2 == 0) {
      writer.add(pieces, name);
      continue;
    }
    require(!pieces.empty() && pieces.back().token, "{}: {} does not end with a special token",
            where, name);
    const int32_t end = *pieces.back().token;
    pieces.pop_back();
    writer.begin_reply(i / 2 >= given, pieces.empty() ? end : pieces.front().token);
    writer.add(pieces, name);
    writer.end_reply(name, end);
  }
}

std::vector<std::string> ChatTemplate::names_read_as_text() const {
  std::vector<std::string> found;
  for (const auto& [name, token] : names_) {
    if (tokenizer_->encode(name) != std::vector<int32_t>{token}) found.push_back(name);
  }
  return found;
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
  writer.begin_reply(/*is_learned=*/true);
  writer.add(continuation, "the continuation");
  writer.end_reply("the continuation", std::nullopt);
  return out;
}

void ChatTemplate::write_prompt(std::span<const Message> messages, Writer& writer) const {
  constexpr Role kReplies = Role::assistant;
  const bool is_begun = !messages.empty() && messages.back().role == kReplies;
  const auto before = messages.first(messages.size() - (is_begun ? 1 : 0));
  const std::optional<Role> last = write(before, before.size(), /*ends=*/false, writer);
  const std::string name = name_of(before.size(), kReplies);
  writer.add(turn(last, kReplies, name, writer.where()).before, name);
  if (is_begun) {
    write_reply(messages.back().text, last_, name, /*is_learned=*/false, writer);
    writer.end_reply(name, std::nullopt);
  } else {
    writer.add(prompt_end_, name);
    writer.finish();
  }
}

}  // namespace tessera
