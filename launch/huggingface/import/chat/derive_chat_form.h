#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/config/chat_form.h"

namespace tessera {

/// The program that derives a form (run_jinja_program).
extern const std::string_view kDeriveChatFormPy;

/// A conversation and what a template writes of it.
struct RenderedChat {
  std::vector<std::pair<Role, std::string>> messages;
  bool is_prompt = false;  ///< whether a reply is to follow
  std::string text;
};

struct DerivedChat {
  ChatForm form;
  std::vector<RenderedChat> checks;  ///< conversations that the form allows
  std::vector<std::string> notes;    ///< what the form does not say of the template
};

/// Finds the form of a Jinja template, named "imported", from what it makes of conversations, and
/// compares both on further ones (run_jinja_program). `tokens` are the template's variables, such
/// as "bos_token", and `names` those of the tokenizer's special tokens. Roles stand where the
/// template allows them and writes the same wherever they do: a template that puts a system message
/// elsewhere than first has no system messages. Throws, saying why, if python3 or jinja2 is
/// missing, if what surrounds a message of the user or a reply depends on anything but the message
/// before it and whether it is the last, if a reply does not end with a special token, or if texts
/// are changed other than by leaving out the white space around them, and thoughts.
DerivedChat derive_chat_form(const std::string& jinja,
                             const std::map<std::string, std::string>& tokens,
                             const std::vector<std::string>& names);

}  // namespace tessera
