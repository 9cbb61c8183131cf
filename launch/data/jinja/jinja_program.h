#pragma once

#include <map>
#include <string>
#include <string_view>

#include "launch/support/text/json.h"

namespace tessera {

/// Programs of python3, which the build embeds (cmake/embed.cmake).
extern const std::string_view kChatRendererPy, kRenderConversationsPy;

/// Runs `program` behind chat_renderer.py, which renders a template in jinja2's sandbox, in a
/// process that can open no files, and returns its answer. Adds the template to `request`, with its
/// variables, such as "bos_token", and the date that it writes; empty: today. Throws, saying why,
/// if python3 or jinja2 is missing, or if the program refuses, fails or takes too long.
Json run_jinja_program(std::string_view program, Json request, const std::string& jinja,
                       const std::map<std::string, std::string>& tokens, const std::string& date);

}  // namespace tessera
