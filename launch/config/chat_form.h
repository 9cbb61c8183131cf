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

/// What surrounds the messages of a conversation, as data. Special tokens are written by their
/// names. A conversation is, for each message,
///
///     before(previous message, message) TEXT                       of the system and the user
///     before(previous message, message) reply_begin TEXT reply_end   of the assistant
struct ChatForm {
  /// What precedes a message of each role; nullopt: none may stand there.
  using Before = std::array<std::optional<std::string>, kRoleNames.size()>;

  std::string name;  ///< "chatml", "plain", or "imported"
  Before at_start = {};
  std::array<Before, kRoleNames.size()> after = {};  ///< by the role of the previous message
  std::string reply_begin = {};  ///< that the assistant writes itself, such as a space
  /// Ends with a special token, the last one that the assistant writes. Empty: the tokenizer's
  /// end-of-document token.
  std::string reply_end = {};
  /// By role: whether white space around a text is left out.
  std::array<bool, kRoleNames.size()> trims = {};
  /// The special tokens that a tokenizer must have.
  std::vector<std::string> tokens = {};
  std::string jinja = {};  ///< the same as a template of transformers
  /// Special tokens by the names that the template knows them by, as in "bos_token", if they are
  /// not the tokenizer's.
  std::map<std::string, std::string> jinja_tokens = {};
  /// Why an imported template is not of this form. Then it is only exported.
  std::string problem = {};

  bool operator==(const ChatForm&) const = default;
};

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
