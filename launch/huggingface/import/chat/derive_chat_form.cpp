#include "launch/huggingface/import/chat/derive_chat_form.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.h"
#include "launch/support/text/white_space.h"

namespace tessera {
namespace {

// Conversations are named by their roles, "SUA"; `+` ends one that a reply is to follow. `~` begins
// one with white space around its texts, `!` one with texts of several lines and scripts, `?` one
// whose texts begin with thoughts.
constexpr const char* kTurns = "UAUA";
constexpr const char* kSystemTurns = "SUAUA";
constexpr const char* kOtherOrders[] = {"AUA", "SSUA", "SA", "UUA", "USUA", "UAAUA", "UASUA"};
constexpr const char* kChecks[] = {"UA",     "UAU+",   "UAUAUA", "UAUAUAU+", "!UAUA",
                                   "!UAU+",  "SUA",    "SU+",    "SUAUAUA",  "SUAUAU+",
                                   "!SUAUA", "!SUAU+", "UU+",    "AU+",      "S+"};
constexpr const char* kThoughts[] = {"?UAUA", "?UAU+", "?SUAUA"};

Role role_of(char letter) {
  return letter == 'S' ? Role::system : letter == 'U' ? Role::user : Role::assistant;
}

/// A text that occurs nowhere else.
std::string probe_text(const std::string& name, size_t message) {
  std::string mark = fmt::format("zq{}qz", message);
  if (name.front() == '~') return " \n" + mark + "\n ";
  if (name.front() == '?') return "<think>\n" + mark + "\n</think>\n\n" + mark;
  if (name.front() == '!') return mark + "'s \"{{ x }}\"\n\n\\n <b> тест 🙂 " + mark;
  return mark;
}

ChatProbe probe_of(const std::string& name) {
  ChatProbe probe;
  for (const char letter : name) {
    if (letter == '+') probe.add_generation_prompt = true;
    if (letter != 'S' && letter != 'U' && letter != 'A') continue;
    probe.messages.emplace_back(role_of(letter), probe_text(name, probe.messages.size()));
  }
  return probe;
}

/// The texts before, between and after the messages of a rendered conversation; nullopt unless each
/// message occurs in it once, in order.
std::optional<std::vector<std::string>> segments(const ChatProbe& probe, const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (const auto& [role, message] : probe.messages) {
    const size_t at = text.find(message);
    if (at == std::string::npos || at < begin) return std::nullopt;
    if (text.find(message, at + 1) != std::string::npos) return std::nullopt;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + message.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

class Derivation {
 public:
  Derivation(const RenderChats& render, const std::vector<std::string>& token_names)
      : token_names_(token_names) {
    std::vector<std::string> names = {kTurns, kSystemTurns, "U+"};
    names.insert(names.end(), std::begin(kOtherOrders), std::end(kOtherOrders));
    names.insert(names.end(), std::begin(kChecks), std::end(kChecks));
    names.insert(names.end(), std::begin(kThoughts), std::end(kThoughts));
    for (const char* name : {kTurns, kSystemTurns}) names.push_back(std::string("~") + name);
    std::vector<ChatProbe> probes;
    for (const std::string& name : names) probes.push_back(probe_of(name));
    const std::vector<RenderedChat> rendered = render(probes);
    require(rendered.size() == names.size(), "{} conversations were rendered as {}", names.size(),
            rendered.size());
    for (size_t i = 0; i < names.size(); ++i) rendered_[names[i]] = rendered[i];
    form_.name = "imported";
  }

  ChatForm run(std::vector<std::string>& notes) {
    learn_turns();
    learn(kSystemTurns);
    for (const char* name : kOtherOrders) learn(name);
    find_trims();
    for (const char* name : kChecks) check(name);
    if (!std::ranges::all_of(kThoughts, [&](const char* name) { return agrees(name); })) {
      notes.emplace_back(
          "the chat template changes messages with thoughts, <think>...</think>: training and "
          "prompts will have them as they are written, so leave them out of earlier replies if "
          "the template does");
    }
    std::set<std::string> tokens;
    add_tokens(form_.reply_end, tokens);
    add_tokens(form_.at_start, tokens);
    for (const ChatForm::Before& before : form_.after) add_tokens(before, tokens);
    form_.tokens.assign(tokens.begin(), tokens.end());
    return form_;
  }

 private:
  std::vector<std::string> required_segments(const std::string& name) const {
    const RenderedChat& rendered = rendered_.at(name);
    require(rendered.error.empty(), "it fails for messages of the user and replies: {}",
            rendered.error);
    const auto parts = segments(probe_of(name), rendered.text);
    require(parts.has_value(), "it does not write each message once, unchanged and in order");
    return *parts;
  }

  /// From messages of the user and replies in turn.
  void learn_turns() {
    const std::vector<std::string> turns = required_segments(kTurns);
    const std::vector<std::string> prompt = required_segments("U+");
    require(turns[1] == turns[3] && turns[0] == prompt[0],
            "what precedes a message depends on its place in the conversation");
    require(turns[1].starts_with(prompt[1]),
            "what add_generation_prompt adds is not what precedes other replies");
    form_.reply_begin = turns[1].substr(prompt[1].size());
    form_.reply_end = reply_end(turns[2]);
    require(turns[4].starts_with(form_.reply_end), "not every reply ends with a special token");
    last_ = turns[4].substr(form_.reply_end.size());
    form_.at_start[index_of(Role::user)] = turns[0];
    form_.after[index_of(Role::user)][index_of(Role::assistant)] = prompt[1];
    form_.after[index_of(Role::assistant)][index_of(Role::user)] =
        turns[2].substr(form_.reply_end.size());
  }

  /// The start of what follows a reply, up to the first special token.
  std::string reply_end(const std::string& after) const {
    for (size_t at = 0; at < after.size(); ++at) {
      if (const std::string* token = token_at(after, at)) {
        return after.substr(0, at + token->size());
      }
    }
    fail("no special token ends a reply");
  }

  /// The longest special token at a place of a text, or null.
  const std::string* token_at(const std::string& text, size_t at) const {
    const std::string* longest = nullptr;
    for (const std::string& name : token_names_) {
      if (text.compare(at, name.size(), name) != 0) continue;
      if (longest == nullptr || name.size() > longest->size()) longest = &name;
    }
    return longest;
  }

  std::optional<std::string>& before(ChatForm& form, std::optional<Role> previous,
                                     Role role) const {
    ChatForm::Before& all = previous ? form.after[index_of(*previous)] : form.at_start;
    return all[index_of(role)];
  }

  /// Adds what a conversation has of new orders of roles, unless the template refuses it, or writes
  /// something else where the order is known.
  void learn(const std::string& name) {
    const RenderedChat& rendered = rendered_.at(name);
    const ChatProbe probe = probe_of(name);
    const auto parts = segments(probe, rendered.text);
    if (!rendered.error.empty() || !parts) return;
    ChatForm learned = form_;
    std::optional<Role> previous;
    for (size_t i = 0; i < probe.messages.size(); ++i) {
      const Role role = probe.messages[i].first;
      std::string_view part = (*parts)[i];
      if (previous == Role::assistant) {
        if (!part.starts_with(form_.reply_end)) return;
        part.remove_prefix(form_.reply_end.size());
      }
      if (role == Role::assistant) {
        if (!part.ends_with(form_.reply_begin)) return;
        part.remove_suffix(form_.reply_begin.size());
      }
      std::optional<std::string>& known = before(learned, previous, role);
      if (known && *known != part) return;
      known = part;
      previous = role;
    }
    if (parts->back() == form_.reply_end + last_) form_ = learned;
  }

  /// What the form makes of a conversation; nullopt if it does not allow it.
  std::optional<std::string> text_of(const std::string& name) {
    const ChatProbe probe = probe_of(name);
    std::string text;
    std::optional<Role> previous;
    const auto begin = [&](Role role) {
      const std::optional<std::string>& known = before(form_, previous, role);
      if (known) text += *known;
      previous = role;
      return known.has_value();
    };
    for (const auto& [role, message] : probe.messages) {
      if (!begin(role)) return std::nullopt;
      const bool is_reply = role == Role::assistant;
      if (is_reply) text += form_.reply_begin;
      text += form_.trims[index_of(role)] ? trimmed(message) : message;
      if (is_reply) text += form_.reply_end;
    }
    if (!probe.add_generation_prompt) return text + last_;
    return begin(Role::assistant) ? std::optional(text) : std::nullopt;
  }

  /// Tries all combinations.
  void find_trims() {
    const bool has_system = form_.at_start[index_of(Role::system)].has_value();
    const std::string name = std::string("~") + (has_system ? kSystemTurns : kTurns);
    const RenderedChat& rendered = rendered_.at(name);
    for (int trims = 0; trims < 8; ++trims) {
      for (size_t role = 0; role < form_.trims.size(); ++role) {
        form_.trims[role] = (trims >> role) % 2 == 1;
      }
      if (rendered.error.empty() && text_of(name) == rendered.text) return;
    }
    fail("it changes the white space around texts");
  }

  /// Whether the template writes a conversation as the form does, if the form allows it.
  bool agrees(const std::string& name) {
    const std::optional<std::string> expected = text_of(name);
    return !expected || rendered_.at(name).text == *expected;
  }

  void check(const std::string& name) {
    if (agrees(name)) return;
    const RenderedChat& rendered = rendered_.at(name);
    require(rendered.error.empty(), "it fails for some conversations: {}", rendered.error);
    fail("it writes {}, where earlier messages suggest {}", quote(rendered.text),
         quote(text_of(name).value_or("")));
  }

  void add_tokens(const std::string& text, std::set<std::string>& tokens) const {
    for (size_t at = 0; at < text.size();) {
      const std::string* token = token_at(text, at);
      if (token != nullptr) tokens.insert(*token);
      at += token != nullptr ? token->size() : 1;
    }
  }

  void add_tokens(const ChatForm::Before& texts, std::set<std::string>& tokens) const {
    for (const auto& text : texts) {
      if (text) add_tokens(*text, tokens);
    }
  }

  const std::vector<std::string>& token_names_;
  std::map<std::string, RenderedChat> rendered_;
  ChatForm form_;
  std::string last_;  // after the end of the last reply
};

}  // namespace

ChatForm derive_chat_form(const RenderChats& render, const std::vector<std::string>& token_names,
                          std::vector<std::string>& notes) {
  return Derivation(render, token_names).run(notes);
}

}  // namespace tessera
