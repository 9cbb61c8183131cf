#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launch/config/chat_form.h"

namespace tessera {

/// A conversation to render.
struct ChatProbe {
  std::vector<std::pair<Role, std::string>> messages;
  bool add_generation_prompt = false;
};

/// What a template makes of it, or why it makes nothing.
struct RenderedChat {
  std::string text;
  std::string error;
};

/// Renders conversations, each into the element with its index.
using RenderChats = std::function<std::vector<RenderedChat>(const std::vector<ChatProbe>&)>;

/// Finds the form of a chat template, named "imported", from what it makes of conversations, and
/// compares both on further ones. `token_names` are those of the tokenizer's special tokens. Roles
/// stand where the template allows them and writes the same wherever they do: a template that puts
/// a system message elsewhere than first has no system messages. Throws, saying why, if what
/// surrounds a message of the user or a reply depends on anything but the message before it, if a
/// reply does not end with a special token, or if texts are changed other than by leaving out the
/// white space around them. `notes` get what the form leaves out: a template that rewrites
/// thoughts, <think>...</think>, as many leave them out of replies. Calls `render` once.
ChatForm derive_chat_form(const RenderChats& render, const std::vector<std::string>& token_names,
                          std::vector<std::string>& notes);

}  // namespace tessera
