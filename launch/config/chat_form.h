#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/support/text/json.h"

namespace tessera {

/// Who says a message.
enum class Role : uint8_t { system, user, assistant };

inline constexpr std::array<std::string_view, 3> kRoleNames = {"system", "user", "assistant"};

constexpr size_t index_of(Role role) { return static_cast<size_t>(role); }

/// White space to remove at one side of a text.
enum class Strip : uint8_t { none, lines, space };
/// As str.strip() of Python: `lines` are line ends, `space` all white space.
struct Trim {
  Strip left = Strip::none, right = Strip::none;
  bool operator==(const Trim&) const = default;
};

/// The treatment of a reply that has thoughts, THOUGHT </think> TEXT.
enum class Thoughts : uint8_t {
  keep,        ///< nothing
  drop,        ///< only the text is written
  drop_lines,  ///< only the text, without line ends before it
  drop_space,  ///< only the text, without white space around it
  own,     ///< the reply must be <think>\nTHOUGHT\n</think>\n\nTEXT and is written without `begin`
  refuse,  ///< the template does something else
};

/// What surrounds the messages of a conversation, as data. Special tokens are written by their
/// names. A conversation is, for each message,
///
///     before(previous message, message) TEXT                               of the system, the user
///     before(previous message, message) given begin TEXT reply_end         of the assistant
///
/// and a prompt ends with before(previous message, a reply) prompt_end.
struct ChatForm {
  /// The text before a message, and the white space to remove from the message (not from replies).
  struct Turn {
    std::string before;
    Trim trim = {};
    bool operator==(const Turn&) const = default;
  };
  /// By the role of the message; nullopt: none may stand there.
  using Turns = std::array<std::optional<Turn>, kRoleNames.size()>;

  struct Reply {
    std::string given = {};  ///< of a prompt
    std::string begin = {};  ///< that the assistant writes itself, such as a space
    Trim trim = {};
    Thoughts thoughts = Thoughts::keep;
    bool operator==(const Reply&) const = default;
  };

  std::string name;  ///< "chatml", "plain", or "imported"
  Turns at_start = {};
  std::array<Turns, kRoleNames.size()> after = {};  ///< by the role of the previous message
  Reply earlier = {};                               ///< a reply that is not the last message
  Reply last = {};
  std::string prompt_end = {};
  /// Ends with a special token, the last one that the assistant writes. Empty: the tokenizer's
  /// end-of-document token.
  std::string reply_end = {};
  /// The special tokens that a tokenizer must have.
  std::vector<std::string> tokens = {};
  std::string jinja = {};  ///< the same as a template of transformers
  /// Special tokens by the names that the template knows them by, as in "bos_token", if they are
  /// not the tokenizer's.
  std::map<std::string, std::string> jinja_tokens = {};
  std::string date = {};  ///< that the template writes, in ISO 8601; empty if it writes none
  /// Why an imported template is not of this form. Then it is only exported.
  std::string problem = {};

  bool operator==(const ChatForm&) const = default;
};

/// `text` without what `trim` leaves out.
std::string_view trimmed(std::string_view text, Trim trim);

/// As of Qwen:
///
///     <|im_start|> ROLE \n TEXT <|im_end|> \n
const ChatForm& chatml_form();

/// Of any tokenizer with an end-of-document token, which ends a reply:
///
///     ROLE : \n TEXT \n                              system and user
///     ROLE : \n TEXT end-of-document                 assistant
const ChatForm& plain_form();

Json to_json(const ChatForm& form);
/// The inverse of to_json(). Treats `json` as untrusted; messages start with `where`.
ChatForm chat_form_from_json(const Json& json, const std::string& where);

}  // namespace tessera
