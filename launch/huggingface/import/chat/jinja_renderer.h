#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/huggingface/import/chat/derive_chat_form.h"

namespace tessera {

struct RenderedChats {
  std::vector<RenderedChat> chats;
  bool has_date = false;  ///< whether the template asked for the date
};

/// Renders conversations with a Jinja template as apply_chat_template() of transformers does, by
/// jinja2 of python3, in its sandbox and in a process that can open no files. `tokens` are the
/// template's variables, such as "bos_token". Throws if python3 or jinja2 is missing, or if the
/// template is no template.
RenderedChats render_chats(const std::string& jinja,
                           const std::map<std::string, std::string>& tokens,
                           const std::vector<ChatProbe>& chats);

}  // namespace tessera
